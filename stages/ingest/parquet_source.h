// Parquet files with flat columns.
//
// A Parquet file from outside may be damaged or hostile: everything that parquet throws ends here as a
// status, and every batch is checked in full before anyone looks at it.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "stages/ingest/table_source.h"

namespace fulcrum::ingest {

absl::StatusOr<std::unique_ptr<TableSource>> OpenParquet(const std::string& path, const TableRequest& request);

}  // namespace fulcrum::ingest
