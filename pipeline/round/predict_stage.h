// The stages that give every row a class: train, plan blocks, read a block, predict a block, partition.
//
// The pool is never held as a whole: a block of rows is read, predicted and dropped, and only classes and confidences
// remain. Functions are called by the nodes of the round's graph.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/round/round_messages.h"
#include "stages/classify/classifier.h"
#include "stages/classify/pool_decisions.h"

namespace fulcrum::pipeline {

/// Fits the classifier, warm if it can, unless predictions were given or the strategy needs none.
absl::StatusOr<TrainedClassifier> TrainClassifier(const RoundRequest& request, classify::Classifier& classifier);

/// Decides what must be computed for predictions, and cuts all rows into blocks.
absl::StatusOr<std::vector<BlockRange>> PlanBlocks(const RoundRequest& request,
                                                   std::shared_ptr<const TrainedClassifier> classifier,
                                                   classify::PoolDecisions& decisions);

/// Brings the block's rows into memory. Different blocks at the same time.
RowBlock ReadBlock(const RoundRequest& request, const BlockRange& range, const classify::PoolDecisions& decisions);

/// Gives the block's rows a class, and a confidence if the strategy needs one. Different blocks at the same time.
absl::StatusOr<PredictedBlock> PredictBlock(const RoundRequest& request, const RowBlock& block,
                                            classify::PoolDecisions& decisions);

/// Collects predicted blocks, in their order, into the classes. Used by one thread at a time.
class Partition {
 public:
  explicit Partition(const RoundRequest& request);

  void Take(const PredictedBlock& block);

  struct Groups {
    std::shared_ptr<const PredictedPool> pool;
    /// The groups that the strategy needs: one per class, or the whole pool, or both, or none.
    std::vector<std::shared_ptr<const ClassRows>> classes;
  };
  /// After the last block.
  Groups Finish(const BlockPlan& plan, classify::PoolDecisions& decisions);

 private:
  const RoundRequest& request_;
  PredictedPool pool_;
  std::vector<RowList> rows_of_class_;
};

}  // namespace fulcrum::pipeline
