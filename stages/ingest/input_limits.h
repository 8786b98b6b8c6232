// How much a file from outside may ask for.
//
// A hostile or damaged file claims what it likes; more than this is refused before memory is spent on it.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "arrow/type_fwd.h"

namespace fulcrum::ingest {

struct InputLimits {
  int max_columns = 100'000;
  /// What a row group or a record batch claims to unpack to.
  std::int64_t max_row_group_bytes = std::int64_t{4} << 30;
  /// One id, label or payload.
  std::int64_t max_text_bytes = std::int64_t{16} << 20;
  /// What a reader may allocate at a time, the rows it gives included; what other readers hold counts too.
  std::int64_t max_memory_bytes = std::int64_t{16} << 30;
  /// What a batch of rows should have, where the format leaves a choice.
  std::int64_t batch_bytes = std::int64_t{16} << 20;
};

/// A pool that refuses to hold more than `limit` bytes at a time. Buffers point back to the pool they came from, so it
/// lives as long as the process; there is one for each limit. Thread-safe.
arrow::MemoryPool* CappedPool(std::int64_t limit);

/// ResourceExhausted for more columns than there may be.
absl::Status CheckColumnCount(std::int64_t columns, const InputLimits& limits, absl::string_view path);

}  // namespace fulcrum::ingest
