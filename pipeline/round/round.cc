#include "pipeline/round/round.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "pipeline/round/round_stages.h"
#include "stages/core/status_macros.h"
#include "stages/leverage/leverage_engine.h"
#include "stages/select/strategy.h"

namespace fulcrum::pipeline {
namespace {

absl::Status CheckInput(const RoundInput& input, const kernel::Features& features) {
  if (input.labels.size() != features.rows()) {
    return absl::InternalError(
        absl::StrFormat("a round was given %d labels for %d rows", input.labels.size(), features.rows()));
  }
  if (input.predictions && input.predictions->size() != features.rows()) {
    return absl::InternalError(
        absl::StrFormat("a round was given %d predictions for %d rows", input.predictions->size(), features.rows()));
  }
  if (input.given_probabilities && input.given_probabilities->size() != features.rows() * input.class_count) {
    return absl::InternalError(absl::StrFormat("a round was given %d probabilities for %d rows and %d classes",
                                               input.given_probabilities->size(), features.rows(), input.class_count));
  }
  if (!input.select) return absl::OkStatus();
  const auto left = static_cast<std::size_t>(std::count(input.labels.begin(), input.labels.end(), kUnlabeled));
  if (left == 0) {
    return absl::OutOfRangeError(
        absl::StrFormat("all %d rows of the pool are labeled; nothing is left to select", features.rows()));
  }
  if (left <= input.barred.size()) {
    return absl::OutOfRangeError(absl::StrFormat(
        "the %d rows of the pool without a label are disputed, set aside or asked about; nothing is left to select",
        left));
  }
  return absl::OkStatus();
}

// Sums of such values, with the weights of a model, are finite in single precision.
constexpr double kLargestFloatValue = 1e18;

/// Half of a batch by a strategy, the other half by chance; single queries alternate.
class HalfByChance final : public select::Strategy {
 public:
  HalfByChance(std::unique_ptr<select::Strategy> strategy, std::unique_ptr<select::Strategy> chance)
      : strategy_(std::move(strategy)), chance_(std::move(chance)) {}

  select::Requirements requirements() const override { return strategy_->requirements(); }

  absl::StatusOr<select::Selection> Select(const select::Candidates& candidates) const override {
    const std::size_t by_strategy = PicksOfStrategy(candidates.batch, candidates.queries_so_far);
    select::Selection selection;
    if (by_strategy > 0) {
      select::Candidates some = candidates;
      some.batch = by_strategy;
      some.cost.budget *= static_cast<double>(by_strategy) / static_cast<double>(candidates.batch);
      FULCRUM_ASSIGN_OR_RETURN(selection, strategy_->Select(some));
    }
    const bool limited = candidates.cost.limits();
    if (selection.picks.size() < by_strategy && !limited) return selection;  // nothing is left
    std::vector<ClassIndex> taken(candidates.labels.begin(), candidates.labels.end());
    for (const select::Pick& pick : selection.picks) taken[pick.row] = 0;
    if (std::ranges::find(taken, kUnlabeled) == taken.end()) return selection;
    select::Candidates rest = candidates;
    rest.labels = taken;
    rest.batch = candidates.batch - by_strategy;
    for (const select::Pick& pick : selection.picks) {
      if (limited) rest.cost.budget -= candidates.cost.costs[pick.row];
    }
    if (rest.batch == 0) return selection;
    FULCRUM_ASSIGN_OR_RETURN(const select::Selection more, chance_->Select(rest));
    selection.picks.insert(selection.picks.end(), more.picks.begin(), more.picks.end());
    selection.has_certificate = false;
    return selection;
  }

 private:
  std::unique_ptr<select::Strategy> strategy_;
  std::unique_ptr<select::Strategy> chance_;
};

/// The strategy of the spec, or one that looks for the classes.
absl::StatusOr<std::unique_ptr<select::Strategy>> StrategyFor(const RoundSpec& spec, const RoundInput& input,
                                                              std::span<const std::size_t> labels_of_class) {
  FULCRUM_ASSIGN_OR_RETURN(
      const RoundStrategy chosen,
      ChooseStrategy(spec, labels_of_class, input.predictions.has_value() || input.given_probabilities.has_value()));
  FULCRUM_ASSIGN_OR_RETURN(std::unique_ptr<select::Strategy> strategy, select::MakeStrategy(chosen.name));
  if (!chosen.half_by_chance) return strategy;
  FULCRUM_ASSIGN_OR_RETURN(std::unique_ptr<select::Strategy> chance, select::MakeStrategy("random"));
  return std::make_unique<HalfByChance>(std::move(strategy), std::move(chance));
}

}  // namespace

absl::Status CheckUsesPredictions(const std::string& name, bool may_ignore) {
  FULCRUM_ASSIGN_OR_RETURN(const std::unique_ptr<select::Strategy> strategy, select::MakeStrategy(name));
  const select::Requirements needs = strategy->requirements();
  const bool uses = needs.predictions || needs.confidence || needs.probabilities || needs.margin || needs.class_groups;
  if (uses || (may_ignore && !strategy->needs_labels())) return absl::OkStatus();
  return absl::InvalidArgumentError(
      strategy->needs_labels()
          ? absl::StrFormat("strategy '%s' trains models of its own and cannot use the predictions of another model; "
                            "choose one that can, such as adaptive-herding, margin, entropy, badge or dbalevs",
                            name)
          : absl::StrFormat("strategy '%s' does not use predictions", name));
}

absl::Status ValidateRoundSpec(const RoundSpec& spec) {
  if (spec.batch == 0) return absl::InvalidArgumentError("batch is 0; it must be 1 or more");
  if (!(spec.tau > 0 && spec.tau <= 1)) {
    return absl::InvalidArgumentError(absl::StrFormat("tau is %g; it must lie in (0, 1]", spec.tau));
  }
  if (!(spec.alpha >= 0 && spec.alpha <= 1)) {
    return absl::InvalidArgumentError(absl::StrFormat("alpha is %g; it must lie in [0, 1]", spec.alpha));
  }
  FULCRUM_RETURN_IF_ERROR(kernel::ValidateKernel(spec.leverage_kernel));
  FULCRUM_RETURN_IF_ERROR(classify::ValidateSvmParameters(spec.svm));
  FULCRUM_RETURN_IF_ERROR(classify::FindClassifier(spec.svm.classifier).status());
  FULCRUM_RETURN_IF_ERROR(leverage::FindEngine(spec.engine).status());
  FULCRUM_ASSIGN_OR_RETURN(const std::unique_ptr<select::Strategy> strategy, select::MakeStrategy(spec.strategy));
  if (!(spec.cost_budget >= 0 && std::isfinite(spec.cost_budget))) {
    return absl::InvalidArgumentError(
        absl::StrFormat("the cost budget is %g; it must be at least 0", spec.cost_budget));
  }
  if (spec.cost_budget > 0 && !strategy->weighs_costs()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("strategy '%s' does not weigh costs, so it cannot keep a cost budget; choose adaptive-herding, "
                        "hybrid, dbalevs, "
                        "herding, uncertainty-herding or random",
                        spec.strategy));
  }
  return absl::OkStatus();
}

// Kernel values that are not finite would travel through every stage as NaN.
absl::Status CheckKernels(const RoundSpec& spec, const kernel::Features& features, std::span<const RowIndex> rows) {
  const std::span<const double> norms = features.squared_norms();
  const bool single = features.precision() == kernel::Precision::kFloat;
  const double largest = single ? kLargestFloatValue : kernel::kLargestValue;
  FULCRUM_RETURN_IF_ERROR(kernel::CheckKernelValues(spec.svm.kernel, norms, rows, largest));
  FULCRUM_ASSIGN_OR_RETURN(const auto strategy, select::MakeStrategy(spec.strategy));
  const select::Requirements needs = strategy->requirements();
  if (!needs.class_groups && !needs.pool_leverage) return absl::OkStatus();
  return kernel::CheckKernelValues(spec.leverage_kernel, norms, rows);
}

RoundRunner::RoundRunner(RoundSpec spec, const kernel::Features& features, const kernel::Features& predicted)
    : spec_(std::move(spec)),
      features_(&features),
      predicted_(&predicted),
      memory_(std::make_unique<RoundMemory>(spec_, features, predicted)) {}

RoundRunner::~RoundRunner() = default;

void RoundRunner::MoveTo(const kernel::Features& grown) {
  const std::map<ClassIndex, RowList> landmarks = Landmarks();
  features_ = predicted_ = &grown;
  memory_->MoveTo(grown);
  RecallLandmarks(landmarks);
}

ConstMatrixView RoundRunner::decisions() const {
  return memory_->decisions.values();
}

std::map<ClassIndex, RowList> RoundRunner::Landmarks() const {
  std::map<ClassIndex, RowList> landmarks;
  for (const auto& [class_index, memory] : memory_->classes) {
    const std::span<const RowIndex> used = memory.Landmarks();
    if (!used.empty()) landmarks[class_index].assign(used.begin(), used.end());
  }
  return landmarks;
}

void RoundRunner::RecallLandmarks(const std::map<ClassIndex, RowList>& landmarks) {
  for (const auto& [class_index, rows] : landmarks) memory_->classes[class_index].recalled_landmarks = rows;
}

absl::StatusOr<RoundResult> RoundRunner::Run(const RoundInput& input, const ProgressCallback& progress,
                                             std::stop_token stop, const CommitCallback& commit) {
  FULCRUM_RETURN_IF_ERROR(ValidateRoundSpec(spec_));
  FULCRUM_RETURN_IF_ERROR(CheckInput(input, *features_));
  if (spec_.cost_budget > 0 && input.select && input.costs.size() != features_->rows()) {
    return absl::InvalidArgumentError(
        "there is a cost budget, and the pool has no costs; name the column with the cost of a label");
  }
  const std::vector<std::size_t> labels_of_class = CountLabels(input.labels, input.class_count);
  FULCRUM_ASSIGN_OR_RETURN(const std::unique_ptr<select::Strategy> strategy,
                           StrategyFor(spec_, input, labels_of_class));
  RoundRequest request{.spec = spec_,
                       .features = *features_,
                       .input = input,
                       .strategy = *strategy,
                       .needs = input.select ? strategy->requirements() : select::Requirements{}};
  const bool has_probabilities = request.NeedsClassifier() || input.given_probabilities;
  if (input.confidence && request.NeedsPredictions() && has_probabilities) request.needs.confidence = true;
  for (const kernel::Features* const features : {features_, predicted_}) {
    RowList rows(features->rows());
    std::iota(rows.begin(), rows.end(), RowIndex{0});
    FULCRUM_RETURN_IF_ERROR(CheckKernels(spec_, *features, rows));
    if (features_ == predicted_) break;
  }
  if (request.NeedsClassifier()) {
    FULCRUM_RETURN_IF_ERROR(CheckClassPairs(labels_of_class, features_->rows(), spec_.memory_bytes));
  }
  absl::StatusOr<RoundResult> result = RunRoundGraph(request, *memory_, progress, std::move(stop), commit);
  if (!result.ok()) {
    // A stage that stopped half way may have left its part of the memory half updated.
    const std::map<ClassIndex, RowList> landmarks = Landmarks();
    memory_ = std::make_unique<RoundMemory>(spec_, *features_, *predicted_);
    RecallLandmarks(landmarks);
  }
  return result;
}

}  // namespace fulcrum::pipeline
