#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "pipeline/experiment/experiment.h"
#include "pipeline/experiment/task_data.h"
#include "pipeline/round/tuning.h"
#include "stages/classify/classifier.h"
#include "stages/classify/svm_model.h"
#include "stages/core/random.h"
#include "stages/core/rows.h"
#include "stages/core/status_macros.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/select/strategy.h"
#include "stages/stream/stream_selector.h"

namespace fulcrum::pipeline {
namespace {

/// The rows of the training half arrive one at a time, in a random order, and each is taken or let go at once.
///
/// The rows that are labeled at the start and a few more are known before the stream begins. After each round the
/// classifier is trained on the labels so far, and the stream goes on until it has taken as many rows as a batch has.
/// For a tuned classifier, whose data has numbers (task_data.h).
class SimulatedStream {
 public:
  /// `share` of the rows that arrive may be taken. The order follows from the seed. `data` must outlive it.
  SimulatedStream(double share, const RunData& data, std::uint64_t seed);

  /// The next `count` rows that are taken, fewer if the stream ends before. `model` was trained on `labels` with these
  /// settings.
  absl::StatusOr<RowList> Next(const ClassifierChoice& choice, const classify::SvmModel& model,
                               std::span<const ClassIndex> labels, std::size_t count);

  /// Rows that have arrived, taken or not.
  std::size_t arrived() const { return arrived_; }

 private:
  absl::Status UseModel(const ClassifierChoice& choice, const classify::SvmModel& model,
                        std::span<const ClassIndex> labels);

  const double share_;
  const RunData& data_;
  RowList known_;     // before the stream began
  RowList arriving_;  // in their order
  std::size_t arrived_ = 0;
  std::string normalized_;                         // how features_ are
  std::optional<kernel::DenseFeatures> features_;  // of all rows
  std::optional<stream::StreamSelector> selector_;
};

// A stream is compared with rows that are known: a tenth of them, and no more than so many.
constexpr std::size_t kMostKnown = 200;
constexpr std::uint64_t kOrderStream = 41;
// A classifier is cross-validated on so many labels or more.
constexpr std::size_t kLeastHeldOut = 10;

SimulatedStream::SimulatedStream(double share, const RunData& data, std::uint64_t seed)
    : share_(share), data_(data), known_(data.start()) {
  RowList rows(data.rows());
  std::iota(rows.begin(), rows.end(), RowIndex{0});
  std::ranges::sort(known_);
  arriving_ = RowsOnlyIn(rows, known_);
  Random random = Random::Fork(seed, kOrderStream);
  random.Shuffle(std::span(arriving_));
  const auto known = static_cast<std::ptrdiff_t>(std::min(kMostKnown, arriving_.size() / 10));
  known_.insert(known_.end(), arriving_.begin(), arriving_.begin() + known);
  arriving_.erase(arriving_.begin(), arriving_.begin() + known);
}

absl::Status SimulatedStream::UseModel(const ClassifierChoice& choice, const classify::SvmModel& model,
                                       std::span<const ClassIndex> labels) {
  if (!features_ || normalized_ != choice.normalize) {
    RowList all(data_.rows());
    std::iota(all.begin(), all.end(), RowIndex{0});
    FULCRUM_ASSIGN_OR_RETURN(ingest::PoolFeatures rows, data_.RawRows(all));
    FULCRUM_ASSIGN_OR_RETURN(const auto normalizer, data_.NormalizerFor(choice.normalize));
    normalizer->Apply(rows);
    rows.MakeDense();
    features_.emplace(std::move(rows.dense()));
    normalized_ = choice.normalize;
  }
  RowList rows = known_;
  rows.insert(rows.end(), arriving_.begin(), arriving_.begin() + static_cast<std::ptrdiff_t>(arrived_));
  std::ranges::sort(rows);
  FULCRUM_ASSIGN_OR_RETURN(
      auto stream_model,
      stream::StreamModel::Make({.features = *features_, .labels = labels, .classifier = &model, .rows = rows}, {}));
  if (selector_) return selector_->UseModel(std::move(stream_model));
  FULCRUM_ASSIGN_OR_RETURN(stream::StreamSelector selector,
                           stream::StreamSelector::Make(std::move(stream_model), {.budget = {.share = share_}}));
  selector_.emplace(std::move(selector));
  return absl::OkStatus();
}

absl::StatusOr<RowList> SimulatedStream::Next(const ClassifierChoice& choice, const classify::SvmModel& model,
                                              std::span<const ClassIndex> labels, std::size_t count) {
  FULCRUM_RETURN_IF_ERROR(UseModel(choice, model, labels));
  RowList taken;
  while (taken.size() < count && arrived_ < arriving_.size()) {
    const RowIndex row = arriving_[arrived_++];
    FULCRUM_ASSIGN_OR_RETURN(const stream::Decision decision, selector_->Offer(features_->values().row(row), 0));
    if (decision.take) taken.push_back(row);
  }
  return taken;
}

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double SecondsOf(const RoundResult& result, std::initializer_list<std::string_view> stages) {
  double sum = 0;
  for (const StageSeconds& entry : result.seconds) {
    if (std::ranges::find(stages, entry.stage) != stages.end()) sum += entry.seconds;
  }
  return sum;
}

double SelectSeconds(const RoundResult& result) {
  return SecondsOf(result, {"partition", "score", "select"});
}

absl::StatusOr<CurvePoint> Judge(const RunData& data, const classify::SvmModel& model, ConstMatrixView test_decisions) {
  const std::vector<ClassIndex> predicted = classify::VoteClasses(model, test_decisions);
  CurvePoint point;
  point.accuracy = Accuracy(predicted, data.test_labels());
  point.f1 = F1Score(predicted, data.test_labels(), data.positive());
  point.macro_f1 = MacroF1Score(predicted, data.test_labels());
  if (model.has_probabilities()) {
    FULCRUM_ASSIGN_OR_RETURN(const Matrix<double> probabilities, classify::Probabilities(model, test_decisions));
    point.calibration_error = CalibrationError(probabilities.view(), predicted, data.test_labels());
  }
  return point;
}

/// Answers the queries of one campaign's rounds from the known labels, and tests each round's model.
class StrategyRunner {
 public:
  /// `features` for settings that are fixed.
  StrategyRunner(const RoundSpec& spec, std::size_t rounds, const RunData& data, PreparedFeatures features,
                 bool ignores_answers, std::span<const SimulatedAnnotator> annotators, const VotingRule& voting,
                 const SimulatedCosts& costs)
      : spec_(spec),
        rounds_(rounds),
        data_(data),
        features_(std::move(features)),
        labels_(data.answers().size(), kUnlabeled),
        // What a tuned kernel picks depends on the answers after all.
        plans_ahead_(ignores_answers && !spec.tune && annotators.empty() && !costs.limits()),
        hears_classifier_(!annotators.empty() && voting.hears_classifier()),
        costs_(costs) {
    if (costs.limits()) cost_of_row_ = costs.Draw(labels_.size(), spec.seed);
    if (!annotators.empty()) {
      weights_.assign(labels_.size(), 1.0);
      crowd_.emplace(std::vector<SimulatedAnnotator>(annotators.begin(), annotators.end()), voting, data.class_count(),
                     data.answers(), spec.seed);
    }
    if (spec.tune) {
      tuned_.emplace(spec);
    } else {
      runner_.emplace(spec, *features_.pool, *features_.predicted);
    }
    for (const RowIndex row : data.start()) labels_[row] = data.answers()[row];
  }

  /// The queries come from a stream.
  void UseStream(double share) { stream_.emplace(share, data_, spec_.seed); }

  absl::StatusOr<Curve> Run() {
    Curve curve;
    double select_seconds = 0;
    for (std::size_t round = 0;; ++round) {
      FULCRUM_ASSIGN_OR_RETURN(CurvePoint point, RunRound(round));
      point.select_seconds = std::exchange(select_seconds, next_select_seconds_);
      curve.points.push_back(point);
      if (next_.empty()) return curve;
      if (crowd_) {
        AskCrowd(round);
        continue;
      }
      for (const RowIndex row : next_) {
        if (costs_.limits() && spent_ + cost_of_row_[row] > Budget(round)) break;
        Label(row);
      }
    }
  }

 private:
  /// What may be spent until the end of a round.
  double Budget(std::size_t round) const { return costs_.budget * static_cast<double>(round + 1) * (1 + 1e-12); }

  void Label(RowIndex row) {
    if (costs_.limits()) spent_ += cost_of_row_[row];
    labels_[row] = data_.answers()[row];
    ++queries_;
    positive_queries_ += labels_[row] == data_.positive() ? 1 : 0;
  }

  /// Rows that have votes and are not decided are not selected again.
  void AskCrowd(std::size_t round) {
    crowd_->Ask(next_, spec_.batch, labels_, weights_);
    if (round + 1 == rounds_) crowd_->AcceptVotes(labels_, weights_);
    queries_ = crowd_->votes();
    positive_queries_ = 0;
    barred_ = crowd_->Undecided();
    if (!stream_) return;
    // The pool has the others, and may offer them again; a stream does not.
    for (const RowIndex row : next_) {
      const bool has_votes = labels_[row] != kUnlabeled || std::ranges::binary_search(barred_, row);
      if (!has_votes) not_asked_.push_back(row);
    }
  }

  /// Lets the crowd hear what the model says of each row, and of a labeled row what one says that did not see the
  /// label.
  absl::Status LetCrowdHear(const classify::SvmModel& model) {
    if (!hears_classifier_ || !model.has_probabilities()) return absl::OkStatus();
    const ConstMatrixView decisions = tuned_ ? tuned_->decisions() : runner_->decisions();
    FULCRUM_ASSIGN_OR_RETURN(Matrix<double> voice, classify::Probabilities(model, decisions.Rows(0, labels_.size())));
    RowList rows;
    std::vector<std::size_t> classes;
    std::vector<double> weights;
    for (std::size_t row = 0; row < labels_.size(); ++row) {
      if (labels_[row] == kUnlabeled) continue;
      rows.push_back(static_cast<RowIndex>(row));
      classes.push_back(static_cast<std::size_t>(labels_[row]));
      weights.push_back(weights_[row]);
    }
    if (rows.size() < kLeastHeldOut) return absl::OkStatus();
    classify::SvmParameters svm = spec_.svm;
    if (tuned_) UseChoice(tuned_->settings().chosen, data_.class_count(), svm);
    FULCRUM_ASSIGN_OR_RETURN(const classify::ClassifierEntry* const entry, classify::FindClassifier(svm.classifier));
    Matrix<double> gram(rows.size(), rows.size());
    kernel::ComputeKernelSymmetric(svm.kernel, tuned_ ? *tuned_->features().pool : *features_.pool, rows, gram.view());
    std::vector<std::uint32_t> positions(rows.size());
    std::iota(positions.begin(), positions.end(), 0u);
    const std::vector<double> costs(data_.class_count(), svm.c);
    const Matrix<double> held_out = classify::HeldOutProbabilities(
        *entry, {gram.view(), positions, classes, data_.class_count(), costs, weights}, spec_.seed);
    for (std::size_t i = 0; i < rows.size(); ++i) std::ranges::copy(held_out.row(i), voice.row(rows[i]).begin());
    crowd_->Hear(std::move(voice));
    return absl::OkStatus();
  }

  /// Trains and tests on the labels so far, and leaves the next queries in next_.
  absl::StatusOr<CurvePoint> RunRound(std::size_t round) {
    const std::size_t labeled = data_.start().size() + queries_;
    const std::size_t taken = data_.start().size() + (crowd_ ? crowd_->decided() + barred_.size() : queries_);
    const bool asks_again = round < rounds_ && taken < labels_.size();
    const RoundInput input{.class_count = data_.class_count(),
                           .labels = labels_,
                           .predictions = {},
                           .queries_so_far = queries_,
                           .weights = weights_,
                           .costs = cost_of_row_,
                           .cost_left = costs_.limits() ? costs_.budget * static_cast<double>(round + 1) - spent_
                                                        : std::numeric_limits<double>::infinity(),
                           .barred = barred_,
                           .always_classify = true,
                           .probabilities = spec_.tune || hears_classifier_,
                           .select = asks_again && !plans_ahead_ && !stream_};
    FULCRUM_ASSIGN_OR_RETURN(const RoundResult result, tuned_ ? tuned_->Run(data_, input) : runner_->Run(input));
    const ConstMatrixView decisions = tuned_ ? tuned_->decisions() : runner_->decisions();
    FULCRUM_ASSIGN_OR_RETURN(CurvePoint point,
                             Judge(data_, *result.model, decisions.Rows(labels_.size(), data_.test_labels().size())));
    point.round = round;
    point.labels = labeled;
    point.cost = spent_ + (crowd_ ? crowd_->cost() : 0);
    point.seconds = crowd_ ? crowd_->seconds() : 0;
    point.queried_positive_share = queries_ > 0 ? static_cast<double>(positive_queries_) / static_cast<double>(queries_)
                                                : std::numeric_limits<double>::quiet_NaN();
    if (crowd_) {
      point.label_accuracy = crowd_->LabelAccuracy(labels_).value_or(std::numeric_limits<double>::quiet_NaN());
      point.paused_spammers = static_cast<double>(crowd_->paused_spammers());
      point.paused_others = static_cast<double>(crowd_->paused_others());
    }
    point.train_seconds = SecondsOf(result, {"tune", "train"});
    point.predict_seconds = SecondsOf(result, {"predict"});
    next_.clear();
    if (!asks_again) return point;
    FULCRUM_RETURN_IF_ERROR(LetCrowdHear(*result.model));
    if (stream_) {
      const Clock::time_point start = Clock::now();
      next_ = std::exchange(not_asked_, {});
      FULCRUM_ASSIGN_OR_RETURN(const RowList taken_now, stream_->Next(tuned_->settings().chosen, *result.model, labels_,
                                                                      spec_.batch - next_.size()));
      next_.insert(next_.end(), taken_now.begin(), taken_now.end());
      next_select_seconds_ = SecondsSince(start);
    } else if (plans_ahead_) {
      FULCRUM_RETURN_IF_ERROR(TakePlanned());
    } else {
      next_select_seconds_ = SelectSeconds(result);
      for (const select::Pick& pick : result.selection.picks) next_.push_back(pick.row);
    }
    return point;
  }

  /// If answers do not matter, the picks of all rounds are those of one large batch, and the work is done once.
  absl::Status TakePlanned() {
    if (planned_.empty()) FULCRUM_RETURN_IF_ERROR(PlanAllRounds());
    const std::size_t count = std::min(spec_.batch, planned_.size() - taken_);
    next_.assign(planned_.begin() + static_cast<std::ptrdiff_t>(taken_),
                 planned_.begin() + static_cast<std::ptrdiff_t>(taken_ + count));
    taken_ += count;
    return absl::OkStatus();
  }

  absl::Status PlanAllRounds() {
    RoundSpec whole = spec_;
    whole.batch = spec_.batch * rounds_;
    RoundRunner planner(std::move(whole), *features_.pool);
    FULCRUM_ASSIGN_OR_RETURN(const RoundResult result,
                             planner.Run({.class_count = data_.class_count(), .labels = labels_, .predictions = {}}));
    for (const select::Pick& pick : result.selection.picks) planned_.push_back(pick.row);
    next_select_seconds_ = SelectSeconds(result) / static_cast<double>(rounds_);
    return absl::OkStatus();
  }

  const RoundSpec& spec_;
  const std::size_t rounds_;
  const RunData& data_;
  const PreparedFeatures features_;    // empty if the classifier is tuned
  std::optional<RoundRunner> runner_;  // one of the two
  std::optional<TunedRunner> tuned_;
  std::vector<ClassIndex> labels_;
  std::vector<double> weights_;  // empty without annotators
  std::optional<SimulatedCrowd> crowd_;
  std::optional<SimulatedStream> stream_;
  RowList not_asked_;  // taken by the stream
  RowList barred_;     // the crowd has votes on them, and they are not decided
  std::size_t queries_ = 0;
  std::size_t positive_queries_ = 0;
  RowList next_;
  double next_select_seconds_ = 0;
  const bool plans_ahead_;
  const bool hears_classifier_;  // the crowd does
  const SimulatedCosts costs_;
  std::vector<double> cost_of_row_;  // empty if they cost nothing
  double spent_ = 0;
  RowList planned_;
  std::size_t taken_ = 0;
};

absl::Status CheckAnnotators(std::span<const SimulatedAnnotator> annotators, const RunData& data) {
  for (const SimulatedAnnotator& annotator : annotators) {
    if (annotator.accuracy.size() == 1 || annotator.accuracy.size() == data.class_count()) continue;
    return absl::InvalidArgumentError(absl::StrFormat("an annotator has %d accuracies, and the data has %d classes",
                                                      annotator.accuracy.size(), data.class_count()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Curve> RunStrategy(const RoundSpec& spec, std::size_t rounds, const RunData& data,
                                  std::span<const SimulatedAnnotator> annotators, const VotingRule& voting,
                                  const SimulatedCosts& costs, const std::string& normalize) {
  FULCRUM_ASSIGN_OR_RETURN(const std::unique_ptr<select::Strategy> strategy, select::MakeStrategy(spec.strategy));
  FULCRUM_RETURN_IF_ERROR(CheckAnnotators(annotators, data));
  RoundSpec with_costs = spec;
  // What a round may spend is not the same in every round; see StrategyRunner::Budget.
  if (costs.limits() && costs.weigh) with_costs.cost_budget = costs.budget * static_cast<double>(rounds);
  PreparedFeatures features;
  if (!spec.tune) {
    FULCRUM_ASSIGN_OR_RETURN(features, data.Fixed(normalize));
  }
  return StrategyRunner(with_costs, rounds, data, std::move(features), strategy->ignores_answers(), annotators, voting,
                        costs)
      .Run();
}

absl::StatusOr<Curve> RunStream(const RoundSpec& spec, std::size_t rounds, const RunData& data, double share,
                                std::span<const SimulatedAnnotator> annotators, const VotingRule& voting) {
  if (!spec.tune) return absl::InvalidArgumentError("the strategy 'stream' needs 'tune: auto'");
  FULCRUM_RETURN_IF_ERROR(CheckAnnotators(annotators, data));
  StrategyRunner runner(spec, rounds, data, {}, /*ignores_answers=*/false, annotators, voting, {});
  runner.UseStream(share);
  return runner.Run();
}

absl::StatusOr<Curve> RunFullData(const RoundSpec& spec, const RunData& data, const std::string& normalize) {
  const Clock::time_point start = Clock::now();
  classify::SvmParameters svm = spec.svm;
  PreparedFeatures features;
  if (spec.tune) {
    FULCRUM_ASSIGN_OR_RETURN(const TunedSettings settings, Tune(data, data.answers(), spec.seed));
    UseChoice(settings.chosen, data.class_count(), svm);
    FULCRUM_ASSIGN_OR_RETURN(features, data.Prepare(settings.chosen.normalize));
  } else {
    FULCRUM_ASSIGN_OR_RETURN(features, data.Fixed(normalize));
  }
  const kernel::Features& pool = *features.pool;
  const kernel::Features& everything = *features.predicted;
  const std::unique_ptr<classify::Classifier> classifier = classify::MakeClassifier(svm, pool);
  FULCRUM_ASSIGN_OR_RETURN(const classify::SvmModel model, classifier->Train(data.answers(), data.class_count()));
  const double train_seconds = SecondsSince(start);
  RowList test(data.test_labels().size());
  for (std::size_t i = 0; i < test.size(); ++i) test[i] = static_cast<RowIndex>(pool.rows() + i);
  Matrix<double> decisions(test.size(), model.pairs.size());
  classify::DecisionValues(model, everything, everything, test, decisions.view());
  FULCRUM_ASSIGN_OR_RETURN(CurvePoint point, Judge(data, model, decisions.view()));
  point.labels = data.answers().size();
  point.queried_positive_share = std::numeric_limits<double>::quiet_NaN();
  point.train_seconds = train_seconds;
  point.predict_seconds = SecondsSince(start) - train_seconds;
  return Curve{.task = {}, .strategy = kFullData, .points = {point}};
}

}  // namespace fulcrum::pipeline
