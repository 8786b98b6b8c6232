#include "pipeline/round/round_graph.h"

#include <algorithm>
#include <utility>

#include "stages/core/block_stream.h"

namespace fulcrum::pipeline {
namespace {

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

constexpr char kPredict[] = "predict";
constexpr char kPartition[] = "partition";

// Ports of the partition node.
constexpr std::size_t kGroups = 0, kNoGroups = 1, kTokens = 2;

/// A person who watches wants to see it move; a line for each of thousands of blocks is too many.
std::size_t BlocksPerReport(std::size_t blocks) {
  constexpr std::size_t kReports = 10;
  return std::max<std::size_t>(1, blocks / kReports);
}

}  // namespace

RoundGraph::RoundGraph(RoundWork& work, std::stop_token stop)
    : work_(work),
      state_(std::move(stop)),
      train_(MakeStage("train", TrainClassifier)),
      send_blocks_(graph_, tbb::flow::serial,
                   [this](const Signal&, BlocksNode::output_ports_type& ports) { SendBlocks(ports); }),
      queue_(graph_),
      limiter_(graph_, BlocksForAllThreads()),
      predict_(graph_, tbb::flow::unlimited,
               [this](const RowBlock& block) {
                 PredictRows(block);
                 return block;
               }),
      in_order_(graph_, [](const RowBlock& block) { return block.index; }),
      partition_(graph_, tbb::flow::serial,
                 [this](const RowBlock& block, PartitionNode::output_ports_type& ports) {
                   TakePredicted(block, ports);
                   std::get<kTokens>(ports).try_put(1);
                 }),
      kernel_(MakeGroupStage("kernel", BuildKernel)),
      eigen_(MakeGroupStage("eigen", SolveEigenproblem)),
      leverage_(MakeGroupStage("leverage", ScoreLeverage)),
      join_(graph_, tbb::flow::serial,
            [this](GroupWork*, JoinNode::output_ports_type& ports) {
              if (++groups_joined_ == work_.groups.size()) std::get<0>(ports).try_put(Signal());
            }),
      select_(MakeStage("select", SelectBatch)),
      commit_(graph_, tbb::flow::serial, [this](const Signal& signal) {
        complete_ = work_.commit ? RunStage("commit", CommitResult) : !state_.stopped();
        return signal;
      }) {
  tbb::flow::make_edge(train_, send_blocks_);
  tbb::flow::make_edge(tbb::flow::output_port<0>(send_blocks_), queue_);
  tbb::flow::make_edge(queue_, limiter_);
  tbb::flow::make_edge(limiter_, predict_);
  tbb::flow::make_edge(predict_, in_order_);
  tbb::flow::make_edge(in_order_, partition_);
  tbb::flow::make_edge(tbb::flow::output_port<kTokens>(partition_), limiter_.decrementer());
  tbb::flow::make_edge(tbb::flow::output_port<kGroups>(partition_), kernel_);
  tbb::flow::make_edge(kernel_, eigen_);
  tbb::flow::make_edge(eigen_, leverage_);
  tbb::flow::make_edge(leverage_, join_);
  tbb::flow::make_edge(tbb::flow::output_port<0>(join_), select_);
  tbb::flow::make_edge(tbb::flow::output_port<kNoGroups>(partition_), select_);
  tbb::flow::make_edge(select_, commit_);
}

absl::Status RoundGraph::Run() {
  train_.try_put(Signal());
  graph_.wait_for_all();
  return state_.Result(complete_);
}

RoundGraph::RoundNode RoundGraph::MakeStage(std::string name, absl::Status (*stage)(RoundWork&)) {
  return RoundNode(graph_, tbb::flow::serial, [this, name = std::move(name), stage](const Signal& signal) {
    RunStage(name, stage);
    return signal;
  });
}

RoundGraph::GroupNode RoundGraph::MakeGroupStage(std::string name,
                                                 absl::Status (*stage)(const RoundWork&, GroupWork&)) {
  return GroupNode(graph_, tbb::flow::unlimited, [this, name = std::move(name), stage](GroupWork* group) {
    // NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): oneTBB writes body(nullptr) in a noexcept, never run
    RunGroupStage(name, stage, *group);
    return group;
  });
}

bool RoundGraph::RunStage(const std::string& name, absl::Status (*stage)(RoundWork&)) {
  if (state_.stopped()) return false;
  Report(name, 0, 1);
  const auto start = std::chrono::steady_clock::now();
  state_.Guard(name, [&] { return stage(work_); }).IgnoreError();
  AddSeconds(name, SecondsSince(start));
  Report(name, 1, 1);
  return true;
}

void RoundGraph::SendBlocks(BlocksNode::output_ports_type& ports) {
  if (state_.stopped()) return;
  predict_begun_ = std::chrono::steady_clock::now();
  const auto blocks = state_.Guard(kPredict, [this] { return PlanPrediction(work_); });
  if (!blocks.ok()) return;
  blocks_ = blocks->size();
  Report(kPredict, 0, blocks_);
  for (const RowBlock& block : *blocks) std::get<0>(ports).try_put(block);
}

void RoundGraph::PredictRows(const RowBlock& block) {
  if (state_.failed()) return;
  state_.Guard(kPredict, [&] { return PredictBlock(work_, block); }).IgnoreError();
}

void RoundGraph::TakePredicted(const RowBlock& block, PartitionNode::output_ports_type& ports) {
  if (state_.stopped()) return;
  state_.Guard(kPartition, [&] { return PartitionBlock(work_, block); }).IgnoreError();
  if (++blocks_taken_ % BlocksPerReport(blocks_) == 0) Report(kPredict, blocks_taken_, blocks_);
  if (blocks_taken_ < blocks_) return;
  state_.Guard(kPredict, [&] { return FinishPrediction(work_); }).IgnoreError();
  AddSeconds(kPredict, SecondsSince(predict_begun_));
  RunStage(kPartition, PartitionPool);
  if (work_.groups.empty()) std::get<kNoGroups>(ports).try_put(Signal());
  for (const auto& group : work_.groups) std::get<kGroups>(ports).try_put(group.get());
}

void RoundGraph::RunGroupStage(const std::string& name, absl::Status (*stage)(const RoundWork&, GroupWork&),
                               GroupWork& group) {
  if (state_.stopped()) return;
  Report(name, 0, work_.groups.size());
  const auto start = std::chrono::steady_clock::now();
  state_.Guard(name, [&] { return stage(work_, group); }).IgnoreError();
  const double seconds = SecondsSince(start);
  group.report.seconds.push_back({name, seconds});
  AddSeconds(name, seconds);
}

void RoundGraph::AddSeconds(const std::string& stage, double seconds) {
  const std::lock_guard lock(seconds_mutex_);
  for (StageSeconds& entry : work_.result.seconds) {
    if (entry.stage == stage) {
      entry.seconds += seconds;
      return;
    }
  }
  work_.result.seconds.push_back({stage, seconds});
}

void RoundGraph::Report(const std::string& stage, std::size_t done, std::size_t total) const {
  if (work_.progress) work_.progress(stage, done, total);
}

}  // namespace fulcrum::pipeline
