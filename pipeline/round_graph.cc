#include "pipeline/round_graph.h"

#include <chrono>
#include <utility>

namespace fulcrum::pipeline {
namespace {

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

RoundGraph::RoundGraph(RoundWork& work, std::stop_token stop)
    : work_(work),
      state_(std::move(stop)),
      train_(MakeStage("train", TrainClassifier)),
      predict_(MakeStage("predict", PredictPool)),
      partition_(graph_, tbb::flow::serial,
                 [this](const Signal& signal, PartitionNode::output_ports_type& ports) {
                   RunStage("partition", PartitionPool);
                   if (work_.groups.empty()) std::get<1>(ports).try_put(signal);
                   for (const auto& group : work_.groups) std::get<0>(ports).try_put(group.get());
                 }),
      kernel_(MakeGroupStage("kernel", BuildKernel)),
      eigen_(MakeGroupStage("eigen", SolveEigenproblem)),
      leverage_(MakeGroupStage("leverage", ScoreLeverage)),
      join_(graph_, tbb::flow::serial,
            [this](GroupWork*, JoinNode::output_ports_type& ports) {
              if (++groups_joined_ == work_.groups.size()) std::get<0>(ports).try_put(Signal());
            }),
      select_(graph_, tbb::flow::serial, [this](const Signal& signal) {
        complete_ = RunStage("select", SelectBatch);
        return signal;
      }) {
  tbb::flow::make_edge(train_, predict_);
  tbb::flow::make_edge(predict_, partition_);
  tbb::flow::make_edge(tbb::flow::output_port<0>(partition_), kernel_);
  tbb::flow::make_edge(kernel_, eigen_);
  tbb::flow::make_edge(eigen_, leverage_);
  tbb::flow::make_edge(leverage_, join_);
  tbb::flow::make_edge(tbb::flow::output_port<0>(join_), select_);
  tbb::flow::make_edge(tbb::flow::output_port<1>(partition_), select_);
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
