// The graph of one round, as a oneTBB flow graph:
//
//   train -> blocks -> queue -> limiter -> predict -> in order -> partition -> kernel -> eigen -> leverage -> join ->
//                                  ^   (many at once)                 | |    (one chain a group, in parallel)     ^
//                                  +------------- tokens -------------+ +------------ no groups to score ---------+
//
//   -> select -> commit
//
// The pool streams through prediction in blocks of rows; the limiter lets a few of them in at a time, and the next as
// one arrives in its classes. The engines' passes over a large class, inside eigen and for rows that select has scored
// again, stream in the same way (block_flow.h). Built, run once and thrown away. A stage that fails lets the rest pass
// through empty, so the graph always runs dry.
#pragma once

#include <chrono>
#include <mutex>
#include <stop_token>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "oneapi/tbb/flow_graph.h"
#include "pipeline/round/flow.h"
#include "pipeline/round/round_stages.h"
#include "pipeline/round/round_work.h"

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
  using Token = int;
  using BlocksNode = tbb::flow::multifunction_node<Signal, std::tuple<RowBlock>>;
  using BlockNode = tbb::flow::function_node<RowBlock, RowBlock>;
  using PartitionNode = tbb::flow::multifunction_node<RowBlock, std::tuple<GroupWork*, Signal, Token>>;
  using JoinNode = tbb::flow::multifunction_node<GroupWork*, std::tuple<Signal>>;

  /// Whether the stage was begun at all.
  bool RunStage(const std::string& name, absl::Status (*stage)(RoundWork&));
  void SendBlocks(BlocksNode::output_ports_type& ports);
  void PredictRows(const RowBlock& block);
  void TakePredicted(const RowBlock& block, PartitionNode::output_ports_type& ports);
  void RunGroupStage(const std::string& name, absl::Status (*stage)(const RoundWork&, GroupWork&), GroupWork& group);
  RoundNode MakeStage(std::string name, absl::Status (*stage)(RoundWork&));
  GroupNode MakeGroupStage(std::string name, absl::Status (*stage)(const RoundWork&, GroupWork&));
  void AddSeconds(const std::string& stage, double seconds);
  void Report(const std::string& stage, std::size_t done, std::size_t total) const;

  RoundWork& work_;
  FlowState state_;
  std::mutex seconds_mutex_;  // guards work_.result.seconds
  std::chrono::steady_clock::time_point predict_begun_;
  std::size_t blocks_ = 0;        // to be predicted
  std::size_t blocks_taken_ = 0;  // touched by the partition node only
  std::size_t groups_joined_ = 0;
  bool complete_ = false;

  tbb::flow::graph graph_;
  RoundNode train_;
  BlocksNode send_blocks_;
  tbb::flow::queue_node<RowBlock> queue_;
  tbb::flow::limiter_node<RowBlock, Token> limiter_;
  BlockNode predict_;
  tbb::flow::sequencer_node<RowBlock> in_order_;
  PartitionNode partition_;
  GroupNode kernel_;
  GroupNode eigen_;
  GroupNode leverage_;
  JoinNode join_;
  RoundNode select_;
  RoundNode commit_;
};

}  // namespace fulcrum::pipeline
