// The stages that every group goes through by itself: kernel, eigen, leverage.

#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/round/flow.h"
#include "pipeline/round/round_stages.h"
#include "stages/core/status_macros.h"
#include "stages/kernel/tiled_kernel.h"
#include "stages/leverage/leverage_scores.h"
#include "stages/linalg/top_eigen.h"

namespace fulcrum::pipeline {
namespace {

using leverage::KernelForm;

// Squares of it are finite in single precision.
constexpr double kLargestFloatValue = 1e18;

/// A class may have outgrown its engine since the last round; what that one kept goes before another begins.
void ForgetOtherEngines(const GroupWork& group) {
  if (group.choice.form != KernelForm::kMatrix) group.memory->kernel.reset();
  if (group.choice.form != KernelForm::kLandmarks) group.memory->landmarks.reset();
  if (group.choice.form == KernelForm::kLandmarks) group.memory->subspace = {};
}

absl::StatusOr<linalg::TopEigen> SolveFrom(const RoundWork& work, GroupWork& group,
                                           const linalg::SymmetricOperator& kernel,
                                           const leverage::StartSubspace& start) {
  group.report.warm = !start.vectors.empty();
  return leverage::SolveLeadingSpace(kernel, {.tau = work.spec.tau,
                                              .engine = group.choice.engine,
                                              .seed = work.spec.seed,
                                              .start = start.vectors.view(),
                                              .start_multiplied = start.multiplied.view(),
                                              .dense_at_once = start.dense_at_once,
                                              .basis_bytes = group.choice.basis_bytes});
}

absl::StatusOr<linalg::TopEigen> SolveExactly(const RoundWork& work, GroupWork& group) {
  const leverage::WarmStart& subspace = group.memory->subspace;
  if (group.choice.form == KernelForm::kMatrix) {
    const linalg::DenseSymmetricOperator matrix(group.memory->kernel->matrix());
    return SolveFrom(work, group, matrix, subspace.For(*group.memory->kernel));
  }
  const kernel::TiledKernel tiled(work.spec.leverage_kernel, work.features, group.rows, BlocksInFlow());
  return SolveFrom(work, group, tiled, subspace.For(tiled));
}

absl::Status ScoreFromLandmarks(const RoundWork& work, GroupWork& group) {
  auto& engine = group.memory->landmarks;
  if (!engine) {
    engine = std::make_unique<leverage::LandmarkEngine>(work.spec.leverage_kernel, work.features, BlocksInFlow());
  }
  // Columns of the kernel are in single precision.
  FULCRUM_RETURN_IF_ERROR(kernel::CheckKernelValues(work.spec.leverage_kernel, work.features.squared_norms(),
                                                    group.rows, kLargestFloatValue));
  // What the largest score is scaled by must be the largest score.
  const bool bounds_suffice =
      work.strategy->requirements().bounds_suffice && work.spec.leverage_scale != select::LeverageScale::kMax;
  FULCRUM_ASSIGN_OR_RETURN(leverage::LandmarkScores scored,
                           engine->Score(group.rows, {.tau = work.spec.tau,
                                                      .seed = work.spec.seed,
                                                      .landmarks = group.choice.landmarks,
                                                      .chosen = group.memory->recalled_landmarks,
                                                      .refine = group.choice.refine,
                                                      .bounds_suffice = bounds_suffice}));
  group.scores = std::move(scored.scores);
  group.slack = bounds_suffice ? scored.slack : 0;
  group.rank = group.report.rank = scored.rank;
  group.report.trace_share = scored.trace_share;
  group.report.engine = group.choice.engine;
  group.report.reason = std::move(scored.reason);
  group.report.residual = scored.quality.residual;
  group.report.warm = scored.warm;
  return absl::OkStatus();
}

void NoteChoice(GroupWork& group) {
  if (group.choice.reason.empty()) return;
  group.report.reason = absl::StrCat(group.choice.reason, ": ", group.report.reason);
}

}  // namespace

absl::Status BuildKernel(const RoundWork& work, GroupWork& group) {
  ForgetOtherEngines(group);
  if (group.choice.form != KernelForm::kMatrix) return absl::OkStatus();
  auto& kernel = group.memory->kernel;
  if (!kernel) kernel.emplace(work.spec.leverage_kernel, work.features);
  kernel->Update(group.rows);
  group.rows.assign(kernel->rows().begin(), kernel->rows().end());
  return absl::OkStatus();
}

absl::Status SolveEigenproblem(const RoundWork& work, GroupWork& group) {
  if (group.rows.empty()) {
    group.report.engine = "none";
    group.report.reason = "the group is empty";
    return absl::OkStatus();
  }
  if (group.choice.form == KernelForm::kLandmarks) return ScoreFromLandmarks(work, group);
  FULCRUM_ASSIGN_OR_RETURN(group.eigen, SolveExactly(work, group));
  return absl::OkStatus();
}

absl::Status ScoreLeverage(const RoundWork&, GroupWork& group) {
  if (group.rows.empty()) return absl::OkStatus();
  if (group.choice.form != KernelForm::kLandmarks) {
    linalg::TopEigen& eigen = group.eigen;
    group.rank = group.report.rank = eigen.rank;
    group.scores = leverage::ScoresFromVectors(eigen.vectors.view(), eigen.rank);
    group.report.trace_share = eigen.trace_share;
    group.report.engine = eigen.engine;
    group.report.reason = eigen.reason;
    group.report.residual = eigen.residual;
    group.report.products = eigen.products;
    group.report.degenerate_cut = eigen.degenerate_cut;
    group.memory->subspace.Remember(group.rows, std::move(eigen));
  }
  NoteChoice(group);
  return absl::OkStatus();
}

}  // namespace fulcrum::pipeline
