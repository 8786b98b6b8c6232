// The graph of one round, as a oneTBB flow graph:
//
//   train -> predict -> partition -> kernel -> eigen -> leverage -> join -> select
//                           |        (one chain a group, in parallel)  ^
//                           +-------- no groups to score -------------+
//
// Built, run once and thrown away. A stage that fails lets the rest pass through empty, so the graph always runs dry.
#pragma once

#include <mutex>
#include <stop_token>
#include <string>
#include <tuple>

#include "absl/status/status.h"
#include "oneapi/tbb/flow_graph.h"
#include "pipeline/flow_state.h"
#include "pipeline/round_stages.h"
#include "pipeline/round_work.h"

namespace fulcrum::pipeline {

class RoundGraph {
 public:
  RoundGraph(RoundWork& work, std::stop_token stop);

  /// Runs the round on the calling thread and the arena's others. The first error, with its stage's name.
  absl::Status Run();

 private:
  using Signal = tbb::flow::continue_msg;
  using RoundNode = tbb::flow::function_node<Signal, Signal>;
  using GroupNode = tbb::flow::function_node<GroupWork*, GroupWork*>;
  using PartitionNode = tbb::flow::multifunction_node<Signal, std::tuple<GroupWork*, Signal>>;
  using JoinNode = tbb::flow::multifunction_node<GroupWork*, std::tuple<Signal>>;

  /// Whether the stage was begun at all.
  bool RunStage(const std::string& name, absl::Status (*stage)(RoundWork&));
  void RunGroupStage(const std::string& name, absl::Status (*stage)(const RoundWork&, GroupWork&), GroupWork& group);
  RoundNode MakeStage(std::string name, absl::Status (*stage)(RoundWork&));
  GroupNode MakeGroupStage(std::string name, absl::Status (*stage)(const RoundWork&, GroupWork&));
  void AddSeconds(const std::string& stage, double seconds);
  void Report(const std::string& stage, std::size_t done, std::size_t total) const;

  RoundWork& work_;
  FlowState state_;
  std::mutex seconds_mutex_;  // guards work_.result.seconds
  std::size_t groups_joined_ = 0;
  bool complete_ = false;

  tbb::flow::graph graph_;
  RoundNode train_;
  RoundNode predict_;
  PartitionNode partition_;
  GroupNode kernel_;
  GroupNode eigen_;
  GroupNode leverage_;
  JoinNode join_;
  RoundNode select_;
};

}  // namespace fulcrum::pipeline
