// Several files read as one table, one after the other.
//
// The first file decides the columns; the others must have the same ones with the same types. Columns that the folders'
// names give come last, as text. A file that changed while it was read is an error: its parts may not belong together.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "arrow/type_fwd.h"
#include "stages/ingest/formats/table_source.h"

namespace fulcrum::ingest {

// The files behind what a user names: a file, a list of them, a folder, a glob, a folder that is partitioned as Hive
// does it ("country=fr/part-0.parquet"), here or on any file system that Arrow reaches by a URI.
//
// Functions without state; thread-safe.

struct SourceFile {
  std::string path;  ///< a path or a URI, as the readers take it
  /// Columns that the folders' names give, outermost first; empty if a value is Hive's word for none.
  std::vector<std::pair<std::string, std::string>> partitions = {};
};

/// The files, in the order in which they were named, those of a folder or glob sorted by their paths. In folders, files
/// whose format has no reader and those that begin with '.' or '_' are left out. NotFound if there are none;
/// DataLoss if files of one folder are partitioned in different ways.
absl::StatusOr<std::vector<SourceFile>> ListSources(const std::vector<std::string>& named);

/// Whether a folder's name gave this column: it says where rows were kept, so it is no feature unless it is named.
bool IsPartitionField(const arrow::Field& field);

/// `title` is what messages call the whole.
absl::StatusOr<std::unique_ptr<TableSource>> OpenJoined(std::string title, std::vector<SourceFile> files,
                                                        const TableRequest& request);

}  // namespace fulcrum::ingest
