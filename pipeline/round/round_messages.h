// The messages on the edges of the round's graph (round_stages.h): one type for what each stage produces.
//
// A stage fills its message and hands it over as shared_ptr<const T>; nothing changes it afterwards, and it lives as
// long as a later message or node needs it. What a round learns for the next one is not in a message: each stage has
// its own part of RoundMemory (round_stages.h), which no other stage reads or writes.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "pipeline/round/round.h"
#include "stages/classify/pool_decisions.h"
#include "stages/classify/svm_model.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/select/greedy/streamed_greedy.h"
#include "stages/select/strategy.h"

namespace fulcrum::pipeline {

/// The class index of the group of all rows, for strategies that score the pool without classes.
inline constexpr ClassIndex kWholePool = -1;

/// The name of the stage in errors, progress and reports.
inline constexpr char kScoreStage[] = "score";

/// What the round was asked for. Every stage may read it; it does not change while the round runs.
struct RoundRequest {
  const RoundSpec& spec;
  const kernel::Features& features;
  const RoundInput& input;
  const select::Strategy& strategy;
  /// What must be computed: the strategy's requirements, or nothing if the round ends with predictions.
  select::Requirements needs = {};

  bool NeedsProbabilities() const { return needs.confidence || needs.probabilities; }
  bool NeedsPredictions() const {
    return needs.predictions || needs.margin || NeedsProbabilities() || needs.class_groups || input.always_classify;
  }
  bool NeedsClassifier() const { return NeedsPredictions() && !input.predictions && !input.given_probabilities; }
};

/// train -> plan.
struct TrainedClassifier {
  std::shared_ptr<const classify::SvmModel> model;  ///< null if predictions were given or none are needed
  std::optional<SvmReport> report;                  ///< present if there is a model
};

/// plan -> read: which blocks of rows there are, and what predicts them.
struct BlockPlan {
  std::shared_ptr<const TrainedClassifier> classifier;
  std::size_t columns_computed = 0;  ///< kernel columns that predictions need
  std::size_t blocks = 0;
};

/// A block that is still to be read. Costs nothing, so all of them wait in a queue.
struct BlockRange {
  std::shared_ptr<const BlockPlan> plan;
  std::size_t index = 0;
  std::size_t first = 0;  ///< row
  std::size_t count = 0;
};

/// read -> predict: rows of the pool in memory. The limiter bounds how many of these exist.
struct RowBlock {
  BlockRange range;
  classify::PoolDecisions::Block rows;
};

/// predict -> partition.
struct PredictedBlock {
  BlockRange range;
  std::vector<ClassIndex> classes;  ///< of those rows that are the pool's; empty if predictions are not needed
  // Of the same rows; empty unless the strategy needs them.
  std::vector<double> confidence;
  std::vector<double> margin;
  std::vector<double> probabilities;  ///< row after row, one value per class
};

/// partition -> score class, with the rows of each class, and on to select.
struct PredictedPool {
  std::shared_ptr<const TrainedClassifier> classifier;
  std::size_t columns_computed = 0;
  std::vector<ClassIndex> predicted;  ///< by row; a labeled row has its label
  // By row; empty unless the strategy needs them.
  std::vector<double> confidence;
  std::vector<double> margin;
  std::vector<double> probabilities;  ///< row after row, one value per class
  std::size_t groups = 0;             ///< how many are to be scored
};

/// partition -> score class: one class group, or the whole pool.
struct ClassRows {
  std::shared_ptr<const PredictedPool> pool;
  ClassIndex class_index = 0;
  RowList rows;  ///< ascending
};

/// What score class finds out about a class. It may outlive the round, so it refers to no other message.
struct ScoredClass {
  ClassReport report;
  RowList rows;                ///< in the engine's order
  std::vector<double> scores;  ///< in the order of rows
  std::size_t rank = 0;
  double slack = 0;             ///< above 0: scores may be off by this much until `rescore` is asked
  ConstMatrixView kernel = {};  ///< in the order of rows; empty if it is not in memory
  /// The exact scores of some of the rows.
  std::function<std::vector<double>(std::span<const RowIndex>)> rescore = {};
  select::SimilarityMemory* similarities = nullptr;  ///< the class's own, for the strategy
};

/// score class -> join.
struct ScoredGroup {
  std::shared_ptr<const ClassRows> group;
  std::shared_ptr<const ScoredClass> scored;
  double seconds = 0;  ///< that scoring took
};

/// join -> select.
struct ScoredPool {
  std::shared_ptr<const PredictedPool> pool;
  std::vector<std::shared_ptr<const ScoredGroup>> groups;  ///< by class index; the whole pool last
};

}  // namespace fulcrum::pipeline
