#include "pipeline/round/round.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"
#include "pipeline/round/round_graph.h"
#include "pipeline/round/round_messages.h"
#include "stages/core/status_macros.h"
#include "stages/leverage/engine_registry.h"
#include "stages/select/strategy_registry.h"

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
  if (!input.select) return absl::OkStatus();
  const auto left = static_cast<std::size_t>(std::count(input.labels.begin(), input.labels.end(), kUnlabeled));
  if (left == 0) {
    return absl::OutOfRangeError(
        absl::StrFormat("all %d rows of the pool are labeled; nothing is left to select", features.rows()));
  }
  if (left <= input.barred.size()) {
    return absl::OutOfRangeError(absl::StrFormat(
        "the %d rows of the pool without a label are disputed or set aside; nothing is left to select", left));
  }
  return absl::OkStatus();
}

/// Kernel values that are not finite would travel through every stage as NaN.
absl::Status CheckKernels(const RoundRequest& request) {
  const std::span<const double> norms = request.features.squared_norms();
  RowList rows(norms.size());
  std::iota(rows.begin(), rows.end(), RowIndex{0});
  FULCRUM_RETURN_IF_ERROR(kernel::CheckKernelValues(request.spec.svm.kernel, norms, rows));
  if (!request.needs.class_groups && !request.needs.pool_leverage) return absl::OkStatus();
  return kernel::CheckKernelValues(request.spec.leverage_kernel, norms, rows);
}

/// Whether labels or predictions tell at least two classes apart.
bool HasTwoClasses(const RoundInput& input) {
  if (input.predictions) return true;
  const auto first = std::ranges::find_if(input.labels, [](ClassIndex label) { return label != kUnlabeled; });
  return std::find_if(first, input.labels.end(),
                      [&](ClassIndex label) { return label != kUnlabeled && label != *first; }) != input.labels.end();
}

/// The strategy of the spec, or the one that makes the first batch.
absl::StatusOr<std::unique_ptr<select::Strategy>> StrategyFor(const RoundSpec& spec, const RoundInput& input) {
  FULCRUM_ASSIGN_OR_RETURN(std::unique_ptr<select::Strategy> strategy, select::MakeStrategy(spec.strategy));
  if (!strategy->needs_labels() || HasTwoClasses(input)) return strategy;
  return select::MakeStrategy(select::kStrategyWithoutLabels);
}

}  // namespace

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
  FULCRUM_RETURN_IF_ERROR(leverage::FindEngine(spec.engine).status());
  return select::MakeStrategy(spec.strategy).status();
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
  FULCRUM_ASSIGN_OR_RETURN(const std::unique_ptr<select::Strategy> strategy, StrategyFor(spec_, input));
  const RoundRequest request{.spec = spec_,
                             .features = *features_,
                             .input = input,
                             .strategy = *strategy,
                             .needs = input.select ? strategy->requirements() : select::Requirements{}};
  FULCRUM_RETURN_IF_ERROR(CheckKernels(request));
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
