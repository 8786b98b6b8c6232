// Score class: the leverage of every row of one class group, or of the whole pool.
//
// The only file of the pipeline that calls stages/leverage. What makes the next round cheap is in the class's own
// ClassMemory, so different classes may be scored at the same time.
#pragma once

#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "pipeline/round/round_messages.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/leverage/leverage_engine.h"
#include "stages/select/greedy/streamed_greedy.h"

namespace fulcrum::pipeline {

/// What a class keeps between rounds.
struct ClassMemory {
  std::unique_ptr<leverage::LeverageEngine> engine;  ///< null before the first round
  RowList recalled_landmarks;                        ///< that an engine of this class had before, to begin with
  select::SimilarityMemory similarities;
  /// The rows that were last scored, ascending, and their scores; empty for a class too large to keep them.
  RowList last_rows;
  std::shared_ptr<const ScoredClass> last;

  /// The same features with more rows behind their own.
  void MoveTo(const kernel::Features& grown);
  /// The landmarks in use, or recalled.
  std::span<const RowIndex> Landmarks() const;
};

/// Scores the rows, warm if it can. A class with the same rows as in the round before has the same scores.
absl::StatusOr<std::shared_ptr<const ScoredClass>> ScoreClass(const RoundRequest& request, const ClassRows& rows,
                                                              ClassMemory& memory);

}  // namespace fulcrum::pipeline
