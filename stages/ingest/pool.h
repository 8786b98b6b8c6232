// The pool: every example that may be labeled, in memory.
//
// Read from one or several tables with an id (optional: what the user calls the row), a label (optional) and features,
// which must be finite numbers. A plain value; movable, not copyable.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/ingest/column_roles.h"
#include "stages/ingest/input_limits.h"
#include "stages/ingest/pool_features.h"
#include "stages/ingest/row_ids.h"

namespace fulcrum::ingest {

struct Pool {
  RowIds ids;
  std::vector<std::string> feature_names;          ///< of dense features; sparse ones have numbers
  PoolFeatures features;                           ///< one example a row, not normalised
  std::optional<std::vector<std::string>> labels;  ///< by row, as text, where the table has the column
  /// By row, what a person needs to see and what a label costs; empty where the columns were not named or not kept.
  std::vector<std::string> payloads;
  std::vector<double> costs;

  /// What people call a feature: the name of its column, or its number, from 1.
  std::string FeatureName(std::size_t feature) const;
};

struct PoolOptions {
  bool keep_labels = false;
  bool keep_payloads = false;  ///< and costs
  /// Told how many rows have been read so far, from the calling thread.
  std::function<void(std::size_t rows)> on_progress = {};
  ColumnOptions columns = {};
  InputLimits limits = {};
};

/// Reads a pool. Errors are DataLoss (NotFound for a missing file) and name file, line, column, value and
/// what to do; up to five problems in one message.
absl::StatusOr<Pool> LoadPool(const std::string& path, const PoolOptions& options = {});

/// The same from several sources, read as one table: files, folders, globs (source_list.h).
absl::StatusOr<Pool> LoadPool(const std::vector<std::string>& sources, const PoolOptions& options = {});

}  // namespace fulcrum::ingest
