// The files behind what a user names: a file, a list of them, a folder, a glob, a folder that is partitioned as Hive
// does it ("country=fr/part-0.parquet"), here or on any file system that Arrow reaches by a URI.
//
// Functions without state; thread-safe.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace fulcrum::ingest {

struct SourceFile {
  std::string path;  ///< a path or a URI, as the readers take it
  /// Columns that the folders' names give, outermost first; empty where a value is Hive's word for none.
  std::vector<std::pair<std::string, std::string>> partitions = {};
};

/// The files, in the order in which they were named, those of a folder or glob sorted by their paths. In folders, files
/// whose format has no reader and those that begin with '.' or '_' are left out. NotFound where there are none;
/// DataLoss where files of one folder are partitioned in different ways.
absl::StatusOr<std::vector<SourceFile>> ListSources(const std::vector<std::string>& named);

}  // namespace fulcrum::ingest
