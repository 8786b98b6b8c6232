// What each node of the round's graph does. Free functions on the round's data; the graph decides when they run.
#pragma once

#include "absl/status/status.h"
#include "pipeline/round_work.h"

namespace fulcrum::pipeline {

/// Fits the classifier, warm where it can, unless predictions were given or the strategy needs none.
absl::Status TrainClassifier(RoundWork& work);
/// Gives every row a class, and a confidence where the strategy asks for one.
absl::Status PredictPool(RoundWork& work);
/// Makes the groups that the strategy needs: one a class, or the whole pool, or none.
absl::Status PartitionPool(RoundWork& work);

absl::Status BuildKernel(const RoundWork& work, GroupWork& group);
absl::Status SolveEigenproblem(const RoundWork& work, GroupWork& group);
absl::Status ScoreLeverage(const RoundWork& work, GroupWork& group);

/// Asks the strategy for the batch.
absl::Status SelectBatch(RoundWork& work);

}  // namespace fulcrum::pipeline
