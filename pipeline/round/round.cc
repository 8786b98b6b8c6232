#include "pipeline/round/round.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"
#include "pipeline/round/memory_budget.h"
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

// Sums of such values, with the weights of a model, are finite in single precision.
constexpr double kLargestFloatValue = 1e18;

/// The classifier has a machine per pair of classes: every row has a value for each, every labeled row a weight. With
/// thousands of classes that is more than any machine has.
absl::Status CheckClassPairs(const RoundRequest& request) {
  std::vector<bool> present(request.input.class_count);
  std::size_t labeled = 0;
  for (const ClassIndex label : request.input.labels) {
    if (label == kUnlabeled) continue;
    present[static_cast<std::size_t>(label)] = true;
    ++labeled;
  }
  const auto classes = static_cast<std::size_t>(std::count(present.begin(), present.end(), true));
  const std::size_t pairs = classes * (classes - std::min<std::size_t>(classes, 1)) / 2;
  const std::size_t needed = sizeof(double) * pairs * (request.features.rows() + labeled);
  const std::size_t most = request.spec.memory_bytes > 0 ? request.spec.memory_bytes : UsableMemoryBytes();
  if (needed <= most) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "the classifier compares %d classes in pairs, which takes %d MiB for %d rows, and %d MiB may be used; allow more "
      "memory, or label with fewer classes",
      classes, needed >> 20, request.features.rows(), most >> 20));
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
  FULCRUM_RETURN_IF_ERROR(classify::FindClassifier(spec.svm.classifier).status());
  FULCRUM_RETURN_IF_ERROR(leverage::FindEngine(spec.engine).status());
  return select::MakeStrategy(spec.strategy).status();
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
  FULCRUM_ASSIGN_OR_RETURN(const std::unique_ptr<select::Strategy> strategy, StrategyFor(spec_, input));
  const RoundRequest request{.spec = spec_,
                             .features = *features_,
                             .input = input,
                             .strategy = *strategy,
                             .needs = input.select ? strategy->requirements() : select::Requirements{}};
  for (const kernel::Features* const features : {features_, predicted_}) {
    RowList rows(features->rows());
    std::iota(rows.begin(), rows.end(), RowIndex{0});
    FULCRUM_RETURN_IF_ERROR(CheckKernels(spec_, *features, rows));
    if (features_ == predicted_) break;
  }
  if (request.NeedsClassifier()) FULCRUM_RETURN_IF_ERROR(CheckClassPairs(request));
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
