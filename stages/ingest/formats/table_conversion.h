// A table from one format to another, what is text becoming what it reads as.
//
// CSV has only text: a first pass over the rows finds the columns that are integers, or numbers, throughout. Formats
// with lists know their lengths row by row, CSV needs them in its header: a first pass finds those too.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/ingest/formats/input_stream.h"

namespace fulcrum::ingest {

/// Reads `sources` as one table and writes it to `path`; the endings tell the formats. The rows that were written.
/// `limits.max_memory_bytes` bounds reading, converting and writing together.
absl::StatusOr<std::int64_t> ConvertTable(const std::vector<std::string>& sources, const std::string& path,
                                          const InputLimits& limits = {});

}  // namespace fulcrum::ingest
