#include "pipeline/round/score_class.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/round/flow.h"
#include "pipeline/round/memory_budget.h"
#include "stages/core/status_macros.h"
#include "stages/kernel/tiled_kernel.h"
#include "stages/leverage/engine_choice.h"
#include "stages/leverage/leverage_scores.h"
#include "stages/linalg/top_eigen.h"
#include "tbb/info.h"

namespace fulcrum::pipeline {
namespace {

using leverage::EngineChoice;
using leverage::KernelForm;

// Squares of it are finite in single precision.
constexpr double kLargestFloatValue = 1e18;
// Scores of larger classes are not kept for the next round: they would take more memory than they save time.
constexpr std::size_t kMostRowsKept = std::size_t{1} << 20;

/// Classes are scored at the same time, so each has its part of the memory and of the cores.
absl::StatusOr<EngineChoice> ChooseEngine(const RoundRequest& request, const ClassRows& rows) {
  // A sparse row is about as much work as a dense one of this length.
  constexpr std::size_t kDimsOfSparseRows = 256;
  const bool dense = request.features.CopyRows({}, {});
  const std::size_t memory = request.spec.memory_bytes > 0 ? request.spec.memory_bytes : UsableMemoryBytes();
  const std::size_t groups = rows.pool->groups;
  const auto threads = static_cast<std::size_t>(tbb::info::default_concurrency());
  FULCRUM_ASSIGN_OR_RETURN(
      EngineChoice choice,
      leverage::ChooseEngine(request.spec.engine, {.rows = rows.rows.size(),
                                                   .dims = dense ? request.features.dims()
                                                                 : std::min(request.features.dims(), kDimsOfSparseRows),
                                                   .memory_bytes = memory / groups,
                                                   .threads = std::max<std::size_t>(1, threads / groups),
                                                   .may_refine = request.spec.refine_landmarks}));
  if (request.spec.landmarks > 0) choice.landmarks = request.spec.landmarks;
  return choice;
}

/// A class may have outgrown its engine since the last round; what that one kept goes before another begins.
void ForgetOtherEngines(KernelForm form, ClassMemory& memory) {
  if (form != KernelForm::kMatrix) memory.kernel.reset();
  if (form != KernelForm::kLandmarks) memory.landmarks.reset();
  if (form == KernelForm::kLandmarks) memory.subspace = {};
}

absl::StatusOr<linalg::TopEigen> Solve(const RoundRequest& request, const EngineChoice& choice,
                                       const linalg::SymmetricOperator& kernel, const leverage::StartSubspace& start,
                                       ScoredClass& scored) {
  scored.report.warm = !start.vectors.empty();
  return leverage::SolveLeadingSpace(kernel, {.tau = request.spec.tau,
                                              .engine = choice.engine,
                                              .seed = request.spec.seed,
                                              .start = start.vectors.view(),
                                              .start_multiplied = start.multiplied.view(),
                                              .dense_at_once = start.dense_at_once,
                                              .basis_bytes = choice.basis_bytes});
}

absl::Status ScoreExactly(const RoundRequest& request, const EngineChoice& choice, ClassMemory& memory,
                          ScoredClass& scored) {
  absl::StatusOr<linalg::TopEigen> solved;
  if (choice.form == KernelForm::kMatrix) {
    if (!memory.kernel) memory.kernel.emplace(request.spec.leverage_kernel, request.features);
    memory.kernel->Update(scored.rows);
    scored.rows.assign(memory.kernel->rows().begin(), memory.kernel->rows().end());
    scored.kernel = memory.kernel->matrix();
    const linalg::DenseSymmetricOperator matrix(scored.kernel);
    solved = Solve(request, choice, matrix, memory.subspace.For(*memory.kernel), scored);
  } else {
    const kernel::TiledKernel tiled(request.spec.leverage_kernel, request.features, scored.rows, BlocksInFlow());
    solved = Solve(request, choice, tiled, memory.subspace.For(tiled), scored);
  }
  FULCRUM_RETURN_IF_ERROR(solved.status());
  linalg::TopEigen& eigen = *solved;
  scored.rank = eigen.rank;
  scored.scores = leverage::ScoresFromVectors(eigen.vectors.view(), eigen.rank);
  scored.report.trace_share = eigen.trace_share;
  scored.report.engine = eigen.engine;
  scored.report.reason = eigen.reason;
  scored.report.residual = eigen.residual;
  scored.report.products = eigen.products;
  scored.report.degenerate_cut = eigen.degenerate_cut;
  memory.subspace.Remember(scored.rows, std::move(eigen));
  return absl::OkStatus();
}

absl::Status ScoreFromLandmarks(const RoundRequest& request, const EngineChoice& choice, ClassMemory& memory,
                                ScoredClass& scored) {
  // Columns of the kernel are in single precision.
  FULCRUM_RETURN_IF_ERROR(kernel::CheckKernelValues(request.spec.leverage_kernel, request.features.squared_norms(),
                                                    scored.rows, kLargestFloatValue));
  if (!memory.landmarks) {
    memory.landmarks =
        std::make_unique<leverage::LandmarkEngine>(request.spec.leverage_kernel, request.features, BlocksInFlow());
  }
  // What the largest score is scaled by must be the largest score.
  const bool bounds_suffice =
      request.needs.bounds_suffice && request.spec.leverage_scale != select::LeverageScale::kMax;
  FULCRUM_ASSIGN_OR_RETURN(leverage::LandmarkScores scores,
                           memory.landmarks->Score(scored.rows, {.tau = request.spec.tau,
                                                                 .seed = request.spec.seed,
                                                                 .landmarks = choice.landmarks,
                                                                 .chosen = memory.recalled_landmarks,
                                                                 .refine = choice.refine,
                                                                 .bounds_suffice = bounds_suffice}));
  scored.scores = std::move(scores.scores);
  scored.slack = bounds_suffice ? scores.slack : 0;
  scored.rank = scores.rank;
  scored.rescore = [engine = memory.landmarks.get()](std::span<const RowIndex> rows) { return engine->Rescore(rows); };
  scored.report.trace_share = scores.trace_share;
  scored.report.engine = choice.engine;
  scored.report.reason = std::move(scores.reason);
  scored.report.residual = scores.quality.residual;
  scored.report.warm = scores.warm;
  return absl::OkStatus();
}

/// With counts of this round.
ScoredClass StartFrom(const RoundRequest& request, const ClassRows& rows, ClassMemory& memory) {
  ScoredClass scored;
  scored.report.class_index = rows.class_index;
  scored.report.rows = rows.rows.size();
  scored.report.labeled = static_cast<std::size_t>(
      std::ranges::count_if(rows.rows, [&](RowIndex row) { return request.input.labels[row] != kUnlabeled; }));
  scored.similarities = &memory.similarities;
  return scored;
}

ScoredClass SameAsBefore(ScoredClass scored, const ScoredClass& last) {
  const std::size_t labeled = scored.report.labeled;
  scored.report = last.report;
  scored.report.labeled = labeled;
  scored.report.products = 0;
  scored.report.warm = true;
  scored.rows = last.rows;
  scored.scores = last.scores;
  scored.rank = last.rank;
  scored.slack = last.slack;
  scored.kernel = last.kernel;
  scored.rescore = last.rescore;
  return scored;
}

}  // namespace

void ClassMemory::MoveTo(const kernel::Features& grown) {
  if (kernel) kernel->MoveTo(grown);
  landmarks.reset();
  last.reset();
}

std::span<const RowIndex> ClassMemory::Landmarks() const {
  return landmarks != nullptr ? landmarks->landmarks() : std::span<const RowIndex>(recalled_landmarks);
}

absl::StatusOr<std::shared_ptr<const ScoredClass>> ScoreClass(const RoundRequest& request, const ClassRows& rows,
                                                              ClassMemory& memory) {
  ScoredClass scored = StartFrom(request, rows, memory);
  if (rows.rows.empty()) {
    scored.report.engine = "none";
    scored.report.reason = "the class is empty";
    return std::make_shared<const ScoredClass>(std::move(scored));
  }
  if (memory.last != nullptr && memory.last_rows == rows.rows) {
    return std::make_shared<const ScoredClass>(SameAsBefore(std::move(scored), *memory.last));
  }
  memory.last.reset();
  FULCRUM_ASSIGN_OR_RETURN(const EngineChoice choice, ChooseEngine(request, rows));
  ForgetOtherEngines(choice.form, memory);
  scored.rows = rows.rows;
  FULCRUM_RETURN_IF_ERROR(choice.form == KernelForm::kLandmarks ? ScoreFromLandmarks(request, choice, memory, scored)
                                                                : ScoreExactly(request, choice, memory, scored));
  scored.report.rank = scored.rank;
  if (!choice.reason.empty()) scored.report.reason = absl::StrCat(choice.reason, ": ", scored.report.reason);
  auto shared = std::make_shared<const ScoredClass>(std::move(scored));
  if (rows.rows.size() <= kMostRowsKept) {
    memory.last_rows = rows.rows;
    memory.last = shared;
  }
  return shared;
}

}  // namespace fulcrum::pipeline
