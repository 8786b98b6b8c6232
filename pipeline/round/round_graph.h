// One round as a oneTBB flow graph. Every edge carries what the stage before it produced (round_messages.h):
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
#pragma once

#include <map>
#include <memory>
#include <stop_token>

#include "absl/status/statusor.h"
#include "pipeline/round/round_messages.h"
#include "pipeline/round/score_class.h"
#include "stages/classify/classifier.h"
#include "stages/classify/pool_decisions.h"

namespace fulcrum::pipeline {

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
