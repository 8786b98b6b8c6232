// CSV files, read by Arrow: a header line, commas, double quotes where needed, no line breaks inside values.
//
// All columns come as text (arrow::binary). Whoever knows what a column means turns it into numbers and can
// then name the offending value; Arrow's own conversion would give up at the first one.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "stages/ingest/table_source.h"

namespace fulcrum::ingest {

absl::StatusOr<std::unique_ptr<TableSource>> OpenCsv(const std::string& path, const TableRequest& request);

}  // namespace fulcrum::ingest
