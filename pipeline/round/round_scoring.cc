// The stages that every group goes through by itself: kernel, eigen, leverage.

#include <utility>

#include "pipeline/round/flow.h"
#include "pipeline/round/round_stages.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {

absl::Status BuildKernel(const RoundWork& work, GroupWork& group) {
  auto& engine = group.memory->engine;
  if (engine != nullptr) return absl::OkStatus();
  FULCRUM_ASSIGN_OR_RETURN(engine, leverage::MakeLeverageEngine(
                                       work.spec.engine, {work.spec.leverage_kernel, work.features, BlocksInFlow()}));
  return absl::OkStatus();
}

absl::Status SolveEigenproblem(const RoundWork& work, GroupWork& group) {
  if (group.rows.empty()) {
    group.report.engine = "none";
    group.report.reason = "the group is empty";
    return absl::OkStatus();
  }
  // What the largest score is scaled by must be the largest score.
  const bool bounds_suffice =
      work.strategy->requirements().bounds_suffice && work.spec.leverage_scale != select::LeverageScale::kMax;
  FULCRUM_ASSIGN_OR_RETURN(group.scored,
                           group.memory->engine->Score(group.rows, {.tau = work.spec.tau,
                                                                    .seed = work.spec.seed,
                                                                    .memory_bytes = group.memory_bytes,
                                                                    .threads = group.threads,
                                                                    .landmarks = work.spec.landmarks,
                                                                    .recalled = group.memory->recalled_landmarks,
                                                                    .may_refine = work.spec.refine_landmarks,
                                                                    .bounds_suffice = bounds_suffice}));
  return absl::OkStatus();
}

absl::Status ScoreLeverage(const RoundWork&, GroupWork& group) {
  if (group.rows.empty()) return absl::OkStatus();
  const leverage::ClassScores& scored = group.scored;
  group.rows = scored.rows;
  group.report.rank = scored.rank;
  group.report.trace_share = scored.trace_share;
  group.report.engine = scored.engine;
  group.report.reason = scored.reason;
  group.report.residual = scored.residual;
  group.report.products = scored.products;
  group.report.degenerate_cut = scored.degenerate_cut;
  group.report.warm = scored.warm;
  return absl::OkStatus();
}

}  // namespace fulcrum::pipeline
