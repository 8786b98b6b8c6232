// Several files read as one table, one after the other.
//
// The first file decides the columns; the others must have the same ones with the same types. Columns that the folders'
// names give come last, as text. A file that changed while it was read is an error: nobody knows which half is old.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "arrow/type_fwd.h"
#include "stages/ingest/source_list.h"
#include "stages/ingest/table_source.h"

namespace fulcrum::ingest {

/// Whether a folder's name gave this column: it says where rows were kept, so it is no feature unless it is named.
bool IsPartitionField(const arrow::Field& field);

/// `title` is what messages call the whole.
absl::StatusOr<std::unique_ptr<TableSource>> OpenJoined(std::string title, std::vector<SourceFile> files,
                                                        const TableRequest& request);

}  // namespace fulcrum::ingest
