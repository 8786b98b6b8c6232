#include "pipeline/round/round.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "pipeline/round/round_graph.h"
#include "pipeline/round/round_work.h"
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

RoundRunner::RoundRunner(RoundSpec spec, const kernel::Features& features)
    : spec_(std::move(spec)), features_(&features), memory_(std::make_unique<RoundMemory>(spec_, features)) {}

RoundRunner::~RoundRunner() = default;

void RoundRunner::MoveTo(const kernel::Features& grown) {
  const std::map<ClassIndex, RowList> landmarks = Landmarks();
  features_ = &grown;
  memory_->MoveTo(grown);
  RecallLandmarks(landmarks);
}

std::map<ClassIndex, RowList> RoundRunner::Landmarks() const {
  std::map<ClassIndex, RowList> landmarks;
  for (const auto& [class_index, group] : memory_->groups) {
    std::span<const RowIndex> used = group.recalled_landmarks;
    if (group.engine != nullptr && !group.engine->landmarks().empty()) used = group.engine->landmarks();
    if (!used.empty()) landmarks[class_index].assign(used.begin(), used.end());
  }
  return landmarks;
}

void RoundRunner::RecallLandmarks(const std::map<ClassIndex, RowList>& landmarks) {
  for (const auto& [class_index, rows] : landmarks) memory_->groups[class_index].recalled_landmarks = rows;
}

absl::StatusOr<RoundResult> RoundRunner::Run(const RoundInput& input, const ProgressCallback& progress,
                                             std::stop_token stop, const CommitCallback& commit) {
  FULCRUM_RETURN_IF_ERROR(ValidateRoundSpec(spec_));
  FULCRUM_RETURN_IF_ERROR(CheckInput(input, *features_));
  RoundWork work{.spec = spec_,
                 .features = *features_,
                 .input = input,
                 .progress = progress,
                 .memory = *memory_,
                 .commit = commit,
                 .always_classify = input.always_classify};
  FULCRUM_ASSIGN_OR_RETURN(work.strategy, select::MakeStrategy(spec_.strategy));
  RoundGraph graph(work, std::move(stop));
  if (absl::Status status = graph.Run(); !status.ok()) {
    // A stage that stopped half way may have left its part of the memory half updated.
    const std::map<ClassIndex, RowList> landmarks = Landmarks();
    memory_ = std::make_unique<RoundMemory>(spec_, *features_);
    RecallLandmarks(landmarks);
    return status;
  }
  return std::move(work.result);
}

}  // namespace fulcrum::pipeline
