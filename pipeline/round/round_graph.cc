
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "oneapi/tbb/flow_graph.h"
#include "pipeline/round/flow.h"
#include "pipeline/round/round_stages.h"
#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

constexpr char kTrain[] = "train", kPredict[] = "predict", kPartition[] = "partition", kSelect[] = "select",
               kCommit[] = "commit";

/// A person who watches wants to see it move; a line for each of thousands of blocks is too many.
std::size_t BlocksPerReport(std::size_t blocks) {
  constexpr std::size_t kReports = 10;
  return std::max<std::size_t>(1, blocks / kReports);
}

/// How long stages took, from whichever thread they ran on. Thread-safe.
class StageClock {
 public:
  void Add(const std::string& stage, double seconds) {
    const std::lock_guard lock(mutex_);
    const auto known = std::ranges::find(seconds_, stage, &StageSeconds::stage);
    if (known != seconds_.end()) {
      known->seconds += seconds;
    } else {
      seconds_.push_back({stage, seconds});
    }
  }
  std::vector<StageSeconds> seconds() const {
    const std::lock_guard lock(mutex_);
    return seconds_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<StageSeconds> seconds_;  // guarded by mutex_, in the order in which stages first ended
};

/// A message on an edge; null if the round is ending and its stage did not run.
template <typename T>
using Message = std::shared_ptr<const T>;

/// One of a row of blocks, which are put back into their order whether or not their stage ran.
template <typename T>
struct Numbered {
  std::size_t index = 0;
  Message<T> message;
};

class RoundGraph {
 public:
  RoundGraph(const RoundRequest& request, RoundMemory& memory, const ProgressCallback& progress, std::stop_token stop,
             const CommitCallback& commit);

  absl::StatusOr<RoundResult> Run();

 private:
  using Start = tbb::flow::continue_msg;
  using Token = int;
  using PlanNode = tbb::flow::multifunction_node<Message<TrainedClassifier>, std::tuple<BlockRange>>;
  using PartitionNode = tbb::flow::multifunction_node<Numbered<PredictedBlock>,
                                                      std::tuple<Message<ClassRows>, Message<ScoredPool>, Token>>;
  using JoinNode = tbb::flow::multifunction_node<Message<ScoredGroup>, std::tuple<Message<ScoredPool>>>;
  // Ports of the partition node.
  static constexpr std::size_t kClasses = 0, kNothingToScore = 1, kTokens = 2;

  Message<TrainedClassifier> Train();
  void Plan(const Message<TrainedClassifier>& trained, PlanNode::output_ports_type& ports);
  Numbered<RowBlock> Read(const BlockRange& range);
  Numbered<PredictedBlock> Predict(const Numbered<RowBlock>& block);
  void TakeBlock(const Message<PredictedBlock>& block, PartitionNode::output_ports_type& ports);
  Message<ScoredGroup> Score(const Message<ClassRows>& rows);
  void Join(const Message<ScoredGroup>& group, JoinNode::output_ports_type& ports);
  Message<RoundResult> Select(const Message<ScoredPool>& scored);
  void Commit(const Message<RoundResult>& result);

  /// Runs a stage that is one call: progress, time and the name in its error.
  template <typename T, typename Call>
  std::shared_ptr<T> RunStage(const char* name, const Call& call);
  void Report(const char* stage, std::size_t done, std::size_t total) const {
    if (progress_) progress_(stage, done, total);
  }

  const RoundRequest& request_;
  RoundMemory& memory_;
  const ProgressCallback& progress_;
  const CommitCallback& commit_callback_;
  FlowState state_;
  StageClock clock_;

  // Each is touched by one serial node only, or before the next one begins.
  Clock::time_point predict_begun_;
  std::size_t blocks_taken_ = 0;
  Partition partition_of_rows_;
  ScoredPool joined_;
  std::shared_ptr<RoundResult> result_;
  bool complete_ = false;

  tbb::flow::graph graph_;
  tbb::flow::function_node<Start, Message<TrainedClassifier>> train_;
  PlanNode plan_;
  tbb::flow::queue_node<BlockRange> queue_;
  tbb::flow::limiter_node<BlockRange, Token> limiter_;
  tbb::flow::function_node<BlockRange, Numbered<RowBlock>> read_;
  tbb::flow::function_node<Numbered<RowBlock>, Numbered<PredictedBlock>> predict_;
  tbb::flow::sequencer_node<Numbered<PredictedBlock>> in_order_;
  PartitionNode partition_;
  tbb::flow::function_node<Message<ClassRows>, Message<ScoredGroup>> score_class_;
  JoinNode join_;
  tbb::flow::function_node<Message<ScoredPool>, Message<RoundResult>> select_;
  tbb::flow::function_node<Message<RoundResult>> commit_;
};

RoundGraph::RoundGraph(const RoundRequest& request, RoundMemory& memory, const ProgressCallback& progress,
                       std::stop_token stop, const CommitCallback& commit)
    : request_(request),
      memory_(memory),
      progress_(progress),
      commit_callback_(commit),
      state_(std::move(stop)),
      partition_of_rows_(request),
      train_(graph_, tbb::flow::serial, [this](const Start&) { return Train(); }),
      plan_(graph_, tbb::flow::serial, [this](const auto& trained, auto& ports) { Plan(trained, ports); }),
      queue_(graph_),
      limiter_(graph_, BlocksForAllThreads()),
      read_(graph_, tbb::flow::unlimited, [this](const BlockRange& range) { return Read(range); }),
      predict_(graph_, tbb::flow::unlimited, [this](const Numbered<RowBlock>& block) { return Predict(block); }),
      in_order_(graph_, [](const Numbered<PredictedBlock>& block) { return block.index; }),
      partition_(graph_, tbb::flow::serial,
                 [this](const Numbered<PredictedBlock>& block, PartitionNode::output_ports_type& ports) {
                   TakeBlock(block.message, ports);
                   std::get<kTokens>(ports).try_put(1);
                 }),
      score_class_(graph_, tbb::flow::unlimited, [this](const Message<ClassRows>& rows) { return Score(rows); }),
      join_(graph_, tbb::flow::serial, [this](const auto& group, auto& ports) { Join(group, ports); }),
      select_(graph_, tbb::flow::serial, [this](const Message<ScoredPool>& scored) { return Select(scored); }),
      commit_(graph_, tbb::flow::serial, [this](const Message<RoundResult>& result) {
        Commit(result);
        return tbb::flow::continue_msg();
      }) {
  for (const StageSeconds& stage : request.input.before) clock_.Add(stage.stage, stage.seconds);
  using tbb::flow::make_edge;
  using tbb::flow::output_port;
  make_edge(train_, plan_);
  make_edge(output_port<0>(plan_), queue_);
  make_edge(queue_, limiter_);
  make_edge(limiter_, read_);
  make_edge(read_, predict_);
  make_edge(predict_, in_order_);
  make_edge(in_order_, partition_);
  make_edge(output_port<kTokens>(partition_), limiter_.decrementer());
  make_edge(output_port<kClasses>(partition_), score_class_);
  make_edge(score_class_, join_);
  make_edge(output_port<0>(join_), select_);
  make_edge(output_port<kNothingToScore>(partition_), select_);
  make_edge(select_, commit_);
  // Before classes are scored at the same time, so that none of them changes the map.
  memory_.classes[kWholePool];
  for (std::size_t c = 0; c < request.input.class_count; ++c) memory_.classes[static_cast<ClassIndex>(c)];
}

absl::StatusOr<RoundResult> RoundGraph::Run() {
  train_.try_put(Start());
  graph_.wait_for_all();
  FULCRUM_RETURN_IF_ERROR(state_.Result(complete_));
  result_->seconds = clock_.seconds();
  return std::move(*result_);
}

template <typename T, typename Call>
std::shared_ptr<T> RoundGraph::RunStage(const char* name, const Call& call) {
  if (state_.stopped()) return nullptr;
  Report(name, 0, 1);
  const Clock::time_point start = Clock::now();
  absl::StatusOr<T> result = state_.Guard(name, call);
  clock_.Add(name, SecondsSince(start));
  Report(name, 1, 1);
  return result.ok() ? std::make_shared<T>(*std::move(result)) : nullptr;
}

Message<TrainedClassifier> RoundGraph::Train() {
  return RunStage<TrainedClassifier>(kTrain, [this] { return TrainClassifier(request_, *memory_.classifier); });
}

void RoundGraph::Plan(const Message<TrainedClassifier>& trained, PlanNode::output_ports_type& ports) {
  if (trained == nullptr || state_.stopped()) return;
  predict_begun_ = Clock::now();
  const auto ranges = state_.Guard(kPredict, [&] { return PlanBlocks(request_, trained, memory_.decisions); });
  if (!ranges.ok()) return;
  Report(kPredict, 0, ranges->size());
  for (const BlockRange& range : *ranges) std::get<0>(ports).try_put(range);
}

Numbered<RowBlock> RoundGraph::Read(const BlockRange& range) {
  if (state_.failed()) return {range.index, nullptr};
  auto block = state_.Guard(kPredict, [&]() -> absl::StatusOr<RowBlock> {
    ThrowIfStopRequested();
    return ReadBlock(request_, range, memory_.decisions);
  });
  return {range.index, block.ok() ? std::make_shared<const RowBlock>(*std::move(block)) : nullptr};
}

Numbered<PredictedBlock> RoundGraph::Predict(const Numbered<RowBlock>& block) {
  if (block.message == nullptr || state_.failed()) return {block.index, nullptr};
  auto predicted = state_.Guard(kPredict, [&] { return PredictBlock(request_, *block.message, memory_.decisions); });
  return {block.index, predicted.ok() ? std::make_shared<const PredictedBlock>(*std::move(predicted)) : nullptr};
}

void RoundGraph::TakeBlock(const Message<PredictedBlock>& block, PartitionNode::output_ports_type& ports) {
  if (block == nullptr || state_.stopped()) return;
  const BlockPlan& plan = *block->range.plan;
  state_
      .Guard(kPartition,
             [&] {
               partition_of_rows_.Take(*block);
               return absl::OkStatus();
             })
      .IgnoreError();
  if (++blocks_taken_ % BlocksPerReport(plan.blocks) == 0) Report(kPredict, blocks_taken_, plan.blocks);
  if (blocks_taken_ < plan.blocks) return;
  clock_.Add(kPredict, SecondsSince(predict_begun_));
  const auto groups = RunStage<Partition::Groups>(kPartition, [&]() -> absl::StatusOr<Partition::Groups> {
    return partition_of_rows_.Finish(plan, memory_.decisions);
  });
  if (groups == nullptr || state_.stopped()) return;
  if (groups->classes.empty()) {
    std::get<kNothingToScore>(ports).try_put(std::make_shared<const ScoredPool>(ScoredPool{groups->pool, {}}));
  }
  for (const Message<ClassRows>& rows : groups->classes) std::get<kClasses>(ports).try_put(rows);
}

Message<ScoredGroup> RoundGraph::Score(const Message<ClassRows>& rows) {
  if (rows == nullptr || state_.stopped()) return nullptr;
  Report(kScoreStage, 0, rows->pool->groups);
  const Clock::time_point start = Clock::now();
  ClassMemory& memory = memory_.classes.find(rows->class_index)->second;
  auto scored = state_.Guard(kScoreStage, [&] { return ScoreClass(request_, *rows, memory); });
  const double seconds = SecondsSince(start);
  clock_.Add(kScoreStage, seconds);
  if (!scored.ok()) return nullptr;
  return std::make_shared<const ScoredGroup>(ScoredGroup{rows, *std::move(scored), seconds});
}

void RoundGraph::Join(const Message<ScoredGroup>& group, JoinNode::output_ports_type& ports) {
  if (group == nullptr) return;
  joined_.pool = group->group->pool;
  joined_.groups.push_back(group);
  if (joined_.groups.size() < joined_.pool->groups) return;
  // In the order of their classes, whichever was the first to arrive; the whole pool, whose index is -1, is the last.
  std::ranges::sort(joined_.groups, {}, [](const Message<ScoredGroup>& scored) {
    return static_cast<std::uint32_t>(scored->group->class_index);
  });
  std::get<0>(ports).try_put(std::make_shared<const ScoredPool>(std::move(joined_)));
}

Message<RoundResult> RoundGraph::Select(const Message<ScoredPool>& scored) {
  if (scored == nullptr) return nullptr;
  result_ = RunStage<RoundResult>(kSelect, [&] { return SelectBatch(request_, *scored); });
  if (result_ == nullptr) return nullptr;
  result_->seconds = clock_.seconds();
  return result_;
}

void RoundGraph::Commit(const Message<RoundResult>& result) {
  if (result == nullptr || state_.stopped()) return;
  if (commit_callback_) {
    RunStage<std::monostate>(kCommit, [&]() -> absl::StatusOr<std::monostate> {
      FULCRUM_RETURN_IF_ERROR(commit_callback_(*result));
      return std::monostate();
    });
  }
  complete_ = true;
}

}  // namespace

absl::StatusOr<RoundResult> RunRoundGraph(const RoundRequest& request, RoundMemory& memory,
                                          const ProgressCallback& progress, std::stop_token stop,
                                          const CommitCallback& commit) {
  return RoundGraph(request, memory, progress, std::move(stop), commit).Run();
}

}  // namespace fulcrum::pipeline
