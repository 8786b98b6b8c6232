// The pool: every example that may be labeled, in memory.
//
// Read from a table whose columns are `id` (optional: what the user calls the row), `label` (optional) and
// features, which must be finite numbers. A plain value; movable, not copyable.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/core/matrix.h"
#include "stages/ingest/row_ids.h"

namespace fulcrum::ingest {

struct Pool {
  RowIds ids;
  std::vector<std::string> feature_names;
  Matrix<double> features;                         ///< one example a row, not normalised
  std::optional<std::vector<std::string>> labels;  ///< by row, as text, where the table has the column
};

struct PoolOptions {
  bool keep_labels = false;
  /// Told how many rows have been read so far, from the calling thread.
  std::function<void(std::size_t rows)> on_progress;
};

/// Reads a pool. Errors are DataLoss (NotFound for a missing file) and name file, line, column, value and
/// what to do; up to five problems in one message.
absl::StatusOr<Pool> LoadPool(const std::string& path, const PoolOptions& options = {});

}  // namespace fulcrum::ingest
