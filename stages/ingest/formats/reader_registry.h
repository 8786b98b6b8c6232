// The file formats that tables can be read from. A new format is one file and one line in reader_registry.cc.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/ingest/columns/column_roles.h"
#include "stages/ingest/formats/table_source.h"

namespace fulcrum::ingest {

struct TableReader {
  std::string format;                ///< "CSV"
  std::vector<std::string> endings;  ///< ".csv"; a compression's ending may follow
  std::function<absl::StatusOr<std::unique_ptr<TableSource>>(const std::string& path, const TableRequest&)> open;
};

const std::vector<TableReader>& TableReaders();

/// Opens a table by the ending of its path; DataLoss with the known endings for another one.
absl::StatusOr<std::unique_ptr<TableSource>> OpenTable(const std::string& path, const TableRequest& request = {});

/// Whether the ending of a path is that of a format.
bool HasReader(const std::string& path);

/// The format that OpenTable reads a path as: "CSV"; empty if the ending is unknown.
std::string FormatName(const std::string& path);

/// ".csv, .parquet, ..."
std::string KnownEndings();

/// Opens what a user names (files, folders, globs: see joined_source.h) as one table, with the columns that the options
/// need and no others.
absl::StatusOr<std::unique_ptr<TableSource>> OpenSources(const std::vector<std::string>& named,
                                                         const ColumnOptions& columns = {},
                                                         const InputLimits& limits = {});

}  // namespace fulcrum::ingest
