// The stages of a round, in the order in which they run, and the graph of them: which strategy, predict, score class,
// select. Functions are called by the nodes of the graph, and by pipeline/cluster for a round over several processes.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/round/round.h"
#include "stages/classify/classifier.h"
#include "stages/classify/svm_model.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/leverage/leverage_engine.h"
#include "stages/select/greedy/streamed_greedy.h"
#include "stages/select/strategy.h"

namespace fulcrum::pipeline {

// The messages on the edges of the round's graph (below): one type for what each stage produces.
//
// A stage fills its message and hands it over as shared_ptr<const T>; nothing changes it afterwards, and it lives as
// long as a later message or node needs it. What a round learns for the next one is not in a message: each stage has
// its own part of RoundMemory, which no other stage reads or writes.

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

// Which strategy makes the batch of a round, and what is checked before one: the same for a round in one process
// (round.h) and for one over several (pipeline/cluster).
//
// Strategies that look at a classifier need labels of two classes. Before that, others look for the classes. Pure
// functions, thread-safe.

/// By class index, how many rows have its label. Rows without a label do not count.
std::vector<std::size_t> CountLabels(std::span<const ClassIndex> labels, std::size_t classes);

struct RoundStrategy {
  std::string name;  ///< of the registry
  /// Half of the batch is picked at random: so many labels are of one class that the others may not have been found.
  bool half_by_chance = false;
};

/// The strategy of the spec, or one that looks for the classes. `labels_of_class` are those of the whole pool;
/// `has_predictions`: of a model of the user's own.
absl::StatusOr<RoundStrategy> ChooseStrategy(const RoundSpec& spec, std::span<const std::size_t> labels_of_class,
                                             bool has_predictions);

/// How many rows of a batch of which half is picked by chance are the strategy's. Batches of one alternate.
std::size_t PicksOfStrategy(std::size_t batch, std::size_t queries_so_far);

/// InvalidArgument if the strategy needs the confidence of a classifier, which given classes do not have.
absl::Status CheckGivenClasses(const std::string& strategy, const select::Requirements& needs);

/// The classifier has a machine per pair of classes: each of `rows` has a value for every pair at a time, every labeled
/// row a weight. With thousands of classes that is more than any machine has. ResourceExhausted if it is more than
/// `memory_bytes` (0: what the machine has).
absl::Status CheckClassPairs(std::span<const std::size_t> labels_of_class, std::size_t rows, std::size_t memory_bytes);

// The stages that give every row a class: train, plan blocks, read a block, predict a block, partition.
//
// The pool is never held as a whole: a block of rows is read, predicted and dropped, and only classes and confidences
// remain.

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

// Score class: the leverage of every row of one class group, or of the whole pool.
//
// The only file of the pipeline that calls stages/leverage. What makes the next round cheap is in the class's own
// ClassMemory, so different classes may be scored at the same time.

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

// Select: asks the strategy for the batch, from everything that the stages before it produced.

/// The round's result, without its times. No picks if the round was asked for predictions only.
absl::StatusOr<RoundResult> SelectBatch(const RoundRequest& request, const ScoredPool& scored);

/// Takes excluded rows out of the picks, and what was picked in excess because of them.
void DropBarred(const RoundRequest& request, std::vector<select::Pick>& picks);

// One round as a oneTBB flow graph. Every edge carries what the stage before it produced:
//
//                                    +------------------ tokens --------------------+
//                                    v                                              |
//   train -> plan -> queue -> limiter -> read -> predict -> in order -> partition --+
//                                       (a block of rows each, in parallel)   |
//                                                                             v
//                  commit <- select <- join <- score class (one message per class, in parallel)
//
// The pool streams through read and predict in blocks of rows. The limiter admits a few of them, and the next one when
// partition is done with one, so that only these are in memory. The engines' passes over a large class stream in the
// same way (flow.h). A graph is built, run once and thrown away. If a stage fails, what is still on its way passes
// through empty, so that every token returns and the graph runs dry.

/// What outlives a round and makes the next one cheap. Each stage uses its own part only.
struct RoundMemory {
  /// `predicted` begins with the pool's rows; decision values of what follows (a test set) are computed along.
  RoundMemory(const RoundSpec& spec, const kernel::Features& pool, const kernel::Features& predicted)
      : classifier(MakeClassifier(spec.svm, pool)), decisions(predicted) {}
  /// The pool with more rows behind its own. Decision values of all rows are computed again.
  void MoveTo(const kernel::Features& grown) {
    classifier->MoveTo(grown);
    decisions = classify::PoolDecisions(grown);
    for (auto& [index, memory] : classes) memory.MoveTo(grown);
  }

  std::unique_ptr<classify::Classifier> classifier;  // train
  classify::PoolDecisions decisions;                 // plan, read, predict, partition: each block its own rows
  std::map<ClassIndex, ClassMemory> classes;         // score class: each its own
};

/// Runs the round on the calling thread and the arena's others. The first error, with its stage's name.
absl::StatusOr<RoundResult> RunRoundGraph(const RoundRequest& request, RoundMemory& memory,
                                          const ProgressCallback& progress, std::stop_token stop,
                                          const CommitCallback& commit);

}  // namespace fulcrum::pipeline
