// The data of one running round, as it travels through the graph's nodes.
//
// RoundMemory is what outlives a round and makes the next one cheap; RoundWork is one round in progress;
// GroupWork is one class group on its way through kernel, eigen and leverage. Nodes of different groups run at
// the same time and touch only their own GroupWork.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "pipeline/round/round.h"
#include "stages/classify/pool_decisions.h"
#include "stages/classify/svm_trainer.h"
#include "stages/core/rows.h"
#include "stages/leverage/leverage_engine.h"
#include "stages/select/greedy/similarity_sums.h"
#include "stages/select/strategy.h"

namespace fulcrum::pipeline {

/// The group of all rows, for strategies that score the pool without classes.
inline constexpr ClassIndex kWholePool = -1;

/// What a group keeps between rounds.
struct GroupMemory {
  std::unique_ptr<leverage::LeverageEngine> engine;
  RowList recalled_landmarks;  // that an engine of this group had before, to begin with
  select::SimilarityMemory similarities;
};

struct RoundMemory {
  RoundMemory(const RoundSpec& spec, const kernel::Features& features) : RoundMemory(spec, features, features) {}
  /// `predicted` begins with the pool's rows; decision values of what follows (a test set) are kept along.
  RoundMemory(const RoundSpec& spec, const kernel::Features& features, const kernel::Features& predicted)
      : trainer(spec.svm, features), decisions(predicted) {}
  /// The pool with more rows behind its own. Decision values of all rows are computed anew, and what is seen from
  /// landmarks is forgotten with them.
  void MoveTo(const kernel::Features& grown) {
    trainer.MoveTo(grown);
    decisions = classify::PoolDecisions(grown);
    for (auto& [index, group] : groups) {
      if (group.engine) group.engine->MoveTo(grown);
    }
  }

  classify::SvmTrainer trainer;
  classify::PoolDecisions decisions;
  std::map<ClassIndex, GroupMemory> groups;
};

struct GroupWork {
  GroupMemory* memory = nullptr;
  std::size_t memory_bytes = 0;  // that scoring the group may use
  std::size_t threads = 1;       // that the group has for itself
  RowList rows;                  // in pool order until they are scored, then in the engine's own
  leverage::ClassScores scored;
  std::size_t refined = 0;  // rows that were scored again because the slack was too large for them
  ClassReport report;
};

/// Rows that travel together from prediction to their classes.
struct RowBlock {
  std::size_t index = 0;
  std::size_t first = 0;
  std::size_t count = 0;
};

struct RoundWork {
  const RoundSpec& spec;
  const kernel::Features& features;
  const RoundInput& input;
  const ProgressCallback& progress;
  RoundMemory& memory;
  CommitCallback commit = {};    // may be missing
  bool always_classify = false;  // train and predict whether the strategy asks for it or not

  std::unique_ptr<select::Strategy> strategy = {};
  classify::SvmModel model = {};
  std::vector<double> confidence = {};
  std::vector<RowList> rows_of_class = {};  // where the strategy asks for classes
  std::vector<std::unique_ptr<GroupWork>> groups = {};
  RoundResult result = {};
};

}  // namespace fulcrum::pipeline
