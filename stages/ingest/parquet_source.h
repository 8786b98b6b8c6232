// Parquet files: flat columns and lists, row group after row group, in batches of bounded size.
//
// A Parquet file from outside may be damaged or hostile: everything that parquet throws ends here as a status that
// names the file and the row group, its claims are held against limits, and every batch is checked in full before
// anyone looks at it. Columns are decoded in parallel under oneTBB: Arrow's own threads stay off.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "stages/ingest/table_source.h"

namespace fulcrum::ingest {

absl::StatusOr<std::unique_ptr<TableSource>> OpenParquet(const std::string& path, const TableRequest& request);

}  // namespace fulcrum::ingest
