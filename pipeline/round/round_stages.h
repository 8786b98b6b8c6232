// What each node of the round's graph does. Free functions on the round's data; the graph decides when they run.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/round/round_work.h"

namespace fulcrum::pipeline {

/// Fits the classifier, warm where it can, unless predictions were given or the strategy needs none.
absl::Status TrainClassifier(RoundWork& work);
/// Decides what must be computed for predictions. The blocks in which all rows are to be predicted, in their order.
absl::StatusOr<std::vector<RowBlock>> PlanPrediction(RoundWork& work);
/// Gives the block's rows a class, and a confidence where the strategy asks for one. Different blocks at the same time.
absl::Status PredictBlock(RoundWork& work, const RowBlock& block);
/// Sends the block's rows to their classes. One block after the other, in their order.
absl::Status PartitionBlock(RoundWork& work, const RowBlock& block);
/// After the last block: what was computed counts from here on.
absl::Status FinishPrediction(RoundWork& work);
/// All of that without a graph.
absl::Status PredictPool(RoundWork& work);
/// Makes the groups that the strategy needs: one a class, or the whole pool, or none.
absl::Status PartitionPool(RoundWork& work);

absl::Status BuildKernel(const RoundWork& work, GroupWork& group);
absl::Status SolveEigenproblem(const RoundWork& work, GroupWork& group);
absl::Status ScoreLeverage(const RoundWork& work, GroupWork& group);

/// Asks the strategy for the batch.
absl::Status SelectBatch(RoundWork& work);
/// Hands the result to the caller's commit.
absl::Status CommitResult(RoundWork& work);

}  // namespace fulcrum::pipeline
