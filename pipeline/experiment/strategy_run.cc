#include "pipeline/experiment/strategy_run.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "pipeline/round/round_stages.h"
#include "pipeline/round/round_work.h"
#include "stages/classify/svm_predictor.h"
#include "stages/core/status_macros.h"
#include "stages/select/strategy_registry.h"

namespace fulcrum::pipeline {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

CurvePoint Judge(const RunData& data, const classify::SvmModel& model, ConstMatrixView test_decisions) {
  const std::vector<ClassIndex> predicted = classify::VoteClasses(model, test_decisions);
  CurvePoint point;
  point.accuracy = Accuracy(predicted, data.test_labels());
  point.f1 = F1Score(predicted, data.test_labels(), data.positive());
  return point;
}

/// The scores of groups as they were last computed. A group whose rows are the same again has the same scores: the
/// whole pool always, a class when an answer was the predicted one and moved no other prediction.
class GroupScores {
 public:
  absl::Status Score(const RoundWork& work, GroupWork& group) {
    Solved& last = solved_[group.report.class_index];
    if (!last.asked_for.empty() && last.asked_for == group.rows) {
      group.scored = last.scored;
      group.rows = last.scored.rows;
      return absl::OkStatus();
    }
    last.asked_for = group.rows;
    FULCRUM_RETURN_IF_ERROR(BuildKernel(work, group));
    FULCRUM_RETURN_IF_ERROR(SolveEigenproblem(work, group));
    FULCRUM_RETURN_IF_ERROR(ScoreLeverage(work, group));
    last.scored = group.scored;
    return absl::OkStatus();
  }

 private:
  struct Solved {
    RowList asked_for;
    leverage::ClassScores scored;  // its kernel stays as it is between two solutions
  };
  std::map<ClassIndex, Solved> solved_;
};

/// Everything between training and picks, group after group.
absl::Status ChoosePicks(RoundWork& work, GroupScores& scores) {
  FULCRUM_RETURN_IF_ERROR(PartitionPool(work));
  for (const std::unique_ptr<GroupWork>& group : work.groups) FULCRUM_RETURN_IF_ERROR(scores.Score(work, *group));
  return SelectBatch(work);
}

class StrategyRunner {
 public:
  StrategyRunner(const RoundSpec& spec, std::size_t rounds, const RunData& data, bool ignores_answers)
      : spec_(spec),
        rounds_(rounds),
        data_(data),
        memory_(spec, data.pool(), data.everything()),
        labels_(data.pool().rows(), kUnlabeled),
        plans_ahead_(ignores_answers) {
    for (const RowIndex row : data.start()) labels_[row] = data.answers()[row];
  }

  absl::StatusOr<Curve> Run() {
    Curve curve;
    double select_seconds = 0;
    for (std::size_t round = 0;; ++round) {
      FULCRUM_ASSIGN_OR_RETURN(CurvePoint point, RunRound(round));
      point.select_seconds = std::exchange(select_seconds, next_select_seconds_);
      curve.points.push_back(point);
      if (next_.empty()) return curve;
      for (const RowIndex row : next_) Label(row);
    }
  }

 private:
  void Label(RowIndex row) {
    labels_[row] = data_.answers()[row];
    ++queries_;
    positive_queries_ += labels_[row] == data_.positive() ? 1 : 0;
  }

  /// Trains and tests on the labels so far, and leaves the next queries in next_.
  absl::StatusOr<CurvePoint> RunRound(std::size_t round) {
    const RoundInput input{
        .class_count = data_.class_count(), .labels = labels_, .predictions = {}, .queries_so_far = queries_};
    RoundWork work{.spec = spec_,
                   .features = data_.pool(),
                   .input = input,
                   .progress = no_progress_,
                   .memory = memory_,
                   .always_classify = true};
    FULCRUM_ASSIGN_OR_RETURN(work.strategy, select::MakeStrategy(spec_.strategy));
    const Clock::time_point start = Clock::now();
    FULCRUM_RETURN_IF_ERROR(TrainClassifier(work));
    const double train_seconds = SecondsSince(start);
    FULCRUM_RETURN_IF_ERROR(PredictPool(work));
    CurvePoint point = Judge(data_, work.model, TestDecisions());
    point.round = round;
    point.labels = data_.start().size() + queries_;
    point.queried_positive_share = queries_ > 0 ? static_cast<double>(positive_queries_) / static_cast<double>(queries_)
                                                : std::numeric_limits<double>::quiet_NaN();
    point.train_seconds = train_seconds;
    point.predict_seconds = SecondsSince(start) - train_seconds;
    next_.clear();
    if (round < rounds_ && point.labels < labels_.size()) FULCRUM_RETURN_IF_ERROR(PrepareNext(work));
    return point;
  }

  ConstMatrixView TestDecisions() const {
    return memory_.decisions.values().Rows(data_.pool().rows(), data_.test_labels().size());
  }

  absl::Status PrepareNext(RoundWork& work) {
    if (plans_ahead_) return TakePlanned();
    const Clock::time_point start = Clock::now();
    FULCRUM_RETURN_IF_ERROR(ChoosePicks(work, scores_));
    next_select_seconds_ = SecondsSince(start);
    for (const select::Pick& pick : work.result.selection.picks) next_.push_back(pick.row);
    return absl::OkStatus();
  }

  /// All rounds at once, where answers do not matter: the picks are the same and the work is done once.
  absl::Status TakePlanned() {
    if (planned_.empty()) FULCRUM_RETURN_IF_ERROR(PlanAllRounds());
    const std::size_t count = std::min(spec_.batch, planned_.size() - taken_);
    next_.assign(planned_.begin() + static_cast<std::ptrdiff_t>(taken_),
                 planned_.begin() + static_cast<std::ptrdiff_t>(taken_ + count));
    taken_ += count;
    return absl::OkStatus();
  }

  absl::Status PlanAllRounds() {
    const Clock::time_point start = Clock::now();
    RoundSpec whole = spec_;
    whole.batch = spec_.batch * rounds_;
    const RoundInput input{.class_count = data_.class_count(), .labels = labels_, .predictions = {}};
    RoundMemory memory(whole, data_.pool());
    RoundWork work{.spec = whole, .features = data_.pool(), .input = input, .progress = no_progress_, .memory = memory};
    FULCRUM_ASSIGN_OR_RETURN(work.strategy, select::MakeStrategy(whole.strategy));
    GroupScores scores;
    FULCRUM_RETURN_IF_ERROR(ChoosePicks(work, scores));
    for (const select::Pick& pick : work.result.selection.picks) planned_.push_back(pick.row);
    next_select_seconds_ = SecondsSince(start) / static_cast<double>(rounds_);
    return absl::OkStatus();
  }

  const RoundSpec& spec_;
  const std::size_t rounds_;
  const RunData& data_;
  const ProgressCallback no_progress_;
  RoundMemory memory_;
  GroupScores scores_;
  std::vector<ClassIndex> labels_;
  std::size_t queries_ = 0;
  std::size_t positive_queries_ = 0;
  RowList next_;
  double next_select_seconds_ = 0;
  const bool plans_ahead_;
  RowList planned_;
  std::size_t taken_ = 0;
};

}  // namespace

absl::StatusOr<Curve> RunStrategy(const RoundSpec& spec, std::size_t rounds, const RunData& data) {
  FULCRUM_ASSIGN_OR_RETURN(const std::unique_ptr<select::Strategy> strategy, select::MakeStrategy(spec.strategy));
  return StrategyRunner(spec, rounds, data, strategy->ignores_answers()).Run();
}

absl::StatusOr<Curve> RunFullData(const classify::SvmParameters& svm, const RunData& data) {
  const Clock::time_point start = Clock::now();
  classify::SvmTrainer trainer(svm, data.pool());
  FULCRUM_ASSIGN_OR_RETURN(const classify::SvmModel model, trainer.Train(data.answers(), data.class_count()));
  const double train_seconds = SecondsSince(start);
  RowList test(data.test_labels().size());
  for (std::size_t i = 0; i < test.size(); ++i) test[i] = static_cast<RowIndex>(data.pool().rows() + i);
  Matrix<double> decisions(test.size(), model.pairs.size());
  classify::DecisionValues(model, data.everything(), data.everything(), test, decisions.view());
  CurvePoint point = Judge(data, model, decisions.view());
  point.labels = data.answers().size();
  point.queried_positive_share = std::numeric_limits<double>::quiet_NaN();
  point.train_seconds = train_seconds;
  point.predict_seconds = SecondsSince(start) - train_seconds;
  return Curve{.task = {}, .strategy = kFullData, .points = {point}};
}

double Accuracy(std::span<const ClassIndex> predicted, std::span<const ClassIndex> truth) {
  assert(predicted.size() == truth.size());
  std::size_t right = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) right += predicted[i] == truth[i] ? 1 : 0;
  return truth.empty() ? 0 : static_cast<double>(right) / static_cast<double>(truth.size());
}

double F1Score(std::span<const ClassIndex> predicted, std::span<const ClassIndex> truth, ClassIndex positive) {
  assert(predicted.size() == truth.size());
  std::size_t hits = 0, mistakes = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const bool said = predicted[i] == positive, is = truth[i] == positive;
    hits += said && is ? 1 : 0;
    mistakes += said != is ? 1 : 0;
  }
  const double weight = 2 * static_cast<double>(hits);
  return hits + mistakes == 0 ? 0 : weight / (weight + static_cast<double>(mistakes));
}

}  // namespace fulcrum::pipeline
