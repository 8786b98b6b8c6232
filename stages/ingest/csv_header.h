// The header line of a CSV file, and the lines themselves where a message must name one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace fulcrum::ingest {

/// Names of the columns, exactly as written. Rejects a file without a header, unnamed columns and a name
/// that comes twice.
absl::StatusOr<std::vector<std::string>> ReadCsvHeader(const std::string& path, std::int64_t max_memory_bytes);

/// Line numbers, counted from 1, of the records with these numbers, counted from 0 with the header as
/// record 0: blank lines are lines but not records. Reads the file up to the last one; OutOfRange where there
/// are fewer.
absl::StatusOr<std::vector<std::uint64_t>> LinesOfRecords(const std::string& path,
                                                          std::span<const std::uint64_t> records,
                                                          std::int64_t max_memory_bytes);

}  // namespace fulcrum::ingest
