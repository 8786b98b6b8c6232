#include <algorithm>
#include <cstddef>
#include <utility>

#include "pipeline/round/flow.h"
#include "pipeline/round/memory_budget.h"
#include "pipeline/round/round_stages.h"
#include "stages/core/status_macros.h"
#include "tbb/info.h"

namespace fulcrum::pipeline {
namespace {

// Scores of larger classes are not kept for the next round: they would take more memory than they save time.
constexpr std::size_t kMostRowsKept = std::size_t{1} << 20;

/// Classes are scored at the same time, so each has its part of the memory and of the cores.
leverage::ClassRequest RequestFor(const RoundRequest& request, const ClassRows& rows, const ClassMemory& memory) {
  const std::size_t bytes = request.spec.memory_bytes > 0 ? request.spec.memory_bytes : UsableMemoryBytes();
  const std::size_t groups = rows.pool->groups;
  const auto threads = static_cast<std::size_t>(tbb::info::default_concurrency());
  // What the largest score is scaled by must be the largest score.
  const bool bounds_suffice =
      request.needs.bounds_suffice && request.spec.leverage_scale != select::LeverageScale::kMax;
  return {.tau = request.spec.tau,
          .seed = request.spec.seed,
          .memory_bytes = bytes / groups,
          .threads = std::max<std::size_t>(1, threads / groups),
          .landmarks = request.spec.landmarks,
          .recalled = memory.recalled_landmarks,
          .may_refine = request.spec.refine_landmarks,
          .bounds_suffice = bounds_suffice};
}

absl::Status ScoreWithEngine(const RoundRequest& request, const ClassRows& rows, ClassMemory& memory,
                             ScoredClass& scored) {
  if (memory.engine == nullptr) {
    FULCRUM_ASSIGN_OR_RETURN(
        memory.engine, leverage::MakeLeverageEngine(request.spec.engine,
                                                    {request.spec.leverage_kernel, request.features, BlocksInFlow()}));
  }
  FULCRUM_ASSIGN_OR_RETURN(leverage::ClassScores found,
                           memory.engine->Score(rows.rows, RequestFor(request, rows, memory)));
  scored.rows = std::move(found.rows);
  scored.scores = std::move(found.scores);
  scored.rank = scored.report.rank = found.rank;
  scored.slack = found.slack;
  scored.kernel = found.kernel;
  scored.rescore = std::move(found.rescore);
  scored.report.trace_share = found.trace_share;
  scored.report.engine = std::move(found.engine);
  scored.report.reason = std::move(found.reason);
  scored.report.residual = found.residual;
  scored.report.products = found.products;
  scored.report.degenerate_cut = found.degenerate_cut;
  scored.report.warm = found.warm;
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
  if (engine != nullptr) engine->MoveTo(grown);
  last.reset();
}

std::span<const RowIndex> ClassMemory::Landmarks() const {
  const bool in_use = engine != nullptr && !engine->landmarks().empty();
  return in_use ? engine->landmarks() : std::span<const RowIndex>(recalled_landmarks);
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
  FULCRUM_RETURN_IF_ERROR(ScoreWithEngine(request, rows, memory, scored));
  auto shared = std::make_shared<const ScoredClass>(std::move(scored));
  if (rows.rows.size() <= kMostRowsKept) {
    memory.last_rows = rows.rows;
    memory.last = shared;
  }
  return shared;
}

}  // namespace fulcrum::pipeline
