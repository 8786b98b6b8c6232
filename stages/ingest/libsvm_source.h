// LIBSVM text as a table: the columns `label` (text), `indices` (lists of integers, from 0) and `values` (lists of
// numbers), one row a line. Lines of a block are parsed in parallel.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "stages/ingest/table_source.h"

namespace fulcrum::ingest {

absl::StatusOr<std::unique_ptr<TableSource>> OpenLibsvm(const std::string& path, const TableRequest& request);

}  // namespace fulcrum::ingest
