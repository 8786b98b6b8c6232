// The data of one run, ready for learning: both halves normalised with the training half's statistics, and the
// inner products that all strategies of the run share. Immutable and thread-safe after construction.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/experiment/run_splits.h"
#include "pipeline/experiment/task_data.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"

namespace fulcrum::pipeline {

class RunData {
 public:
  /// Larger tables of inner products are not stored; products are then computed each time.
  static constexpr std::size_t kMostTableBytes = std::size_t{2} << 30;

  static absl::StatusOr<RunData> Make(const TaskData& data, const Split& split,
                                      std::size_t most_table_bytes = kMostTableBytes);

  /// The approximate memory of a run of this size, for any strategy.
  static std::size_t EstimateBytes(const TaskData& data, const Split& split);

  /// The training half: row i is row split.train[i] of the data.
  const kernel::Features& pool() const { return *pool_; }
  /// The training half, then the test half.
  const kernel::Features& everything() const { return *everything_; }

  std::size_t class_count() const { return class_count_; }
  ClassIndex positive() const { return positive_; }
  /// The answers, by row of the pool.
  std::span<const ClassIndex> answers() const { return answers_; }
  std::span<const ClassIndex> test_labels() const { return test_labels_; }
  /// Rows of the pool that are labeled at the start.
  const RowList& start() const { return start_; }

 private:
  RunData() = default;

  std::unique_ptr<kernel::Features> pool_;
  std::unique_ptr<kernel::Features> everything_;
  std::size_t class_count_ = 0;
  ClassIndex positive_ = 0;
  std::vector<ClassIndex> answers_;
  std::vector<ClassIndex> test_labels_;
  RowList start_;
};

}  // namespace fulcrum::pipeline
