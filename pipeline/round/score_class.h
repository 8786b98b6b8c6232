// Score class: the leverage of every row of one class group, or of the whole pool.
//
// The only file of the pipeline that calls stages/leverage. Chooses the engine by the size of the class, and keeps what
// makes the next round cheap in the class's own ClassMemory. Different classes may be scored at the same time.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "pipeline/round/round_messages.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/row_set_kernel.h"
#include "stages/leverage/landmark_engine.h"
#include "stages/leverage/warm_start.h"
#include "stages/select/greedy/similarity_sums.h"

namespace fulcrum::pipeline {

/// What a class keeps between rounds: by its engine a kernel matrix and a subspace, a subspace alone, or landmarks.
struct ClassMemory {
  std::optional<kernel::RowSetKernel> kernel;
  leverage::WarmStart subspace;
  std::unique_ptr<leverage::LandmarkEngine> landmarks;
  RowList recalled_landmarks;  ///< that an engine of this class had before, to begin with
  select::SimilarityMemory similarities;
  /// The rows that were last scored, ascending, and their scores; empty for a class too large to keep them.
  RowList last_rows;
  std::shared_ptr<const ScoredClass> last;

  /// The same features with more rows behind their own. What is seen from landmarks is forgotten.
  void MoveTo(const kernel::Features& grown);
  /// The landmarks in use, or recalled.
  std::span<const RowIndex> Landmarks() const;
};

/// Scores the rows, warm if it can. A class with the same rows as in the round before has the same scores.
absl::StatusOr<std::shared_ptr<const ScoredClass>> ScoreClass(const RoundRequest& request, const ClassRows& rows,
                                                              ClassMemory& memory);

}  // namespace fulcrum::pipeline
