#include "pipeline/round/round_stages.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "pipeline/round/memory_budget.h"
#include "stages/core/status_macros.h"
#include "tbb/info.h"

namespace fulcrum::pipeline {
namespace {

GroupMemory& MemoryOf(RoundWork& work, ClassIndex class_index) {
  return work.memory.groups[class_index];
}

std::unique_ptr<GroupWork> MakeGroup(RoundWork& work, ClassIndex class_index, RowList rows) {
  auto group = std::make_unique<GroupWork>();
  group->memory = &MemoryOf(work, class_index);
  group->report.class_index = class_index;
  group->report.rows = rows.size();
  group->report.labeled = static_cast<std::size_t>(
      std::count_if(rows.begin(), rows.end(), [&](RowIndex row) { return work.input.labels[row] != kUnlabeled; }));
  group->rows = std::move(rows);
  return group;
}

/// Groups are scored at the same time, so each has its part of the memory and of the cores.
void ShareResources(RoundWork& work) {
  const std::size_t memory = work.spec.memory_bytes > 0 ? work.spec.memory_bytes : UsableMemoryBytes();
  for (const auto& group : work.groups) {
    group->memory_bytes = memory / work.groups.size();
    group->threads =
        std::max<std::size_t>(1, static_cast<std::size_t>(tbb::info::default_concurrency()) / work.groups.size());
  }
}

/// The scores that rows of the group have now, where they were left as they were.
std::vector<double> RefineScores(GroupWork& group, std::span<const std::size_t> positions) {
  RowList rows;
  rows.reserve(positions.size());
  for (const std::size_t position : positions) rows.push_back(group.rows[position]);
  std::vector<double> scores = group.scored.rescore(rows);
  for (std::size_t i = 0; i < positions.size(); ++i) group.scored.scores[positions[i]] = scores[i];
  group.refined += positions.size();
  return scores;
}

std::vector<select::Group> GroupsForStrategy(const RoundWork& work) {
  std::vector<select::Group> groups;
  for (const auto& group : work.groups) {
    if (group->report.class_index == kWholePool) continue;
    select::Group view;
    view.class_index = group->report.class_index;
    view.rank = group->scored.rank;
    view.rows = group->rows;
    view.leverage = group->scored.scores;
    view.leverage_slack = group->scored.slack;
    view.similarities = &group->memory->similarities;
    view.refine_leverage = [scored = group.get()](std::span<const std::size_t> positions) {
      return RefineScores(*scored, positions);
    };
    view.kernel = group->scored.kernel;
    groups.push_back(view);
  }
  return groups;
}

select::Candidates CandidatesOf(const RoundWork& work, std::span<const select::Group> groups) {
  select::Candidates candidates;
  candidates.features = &work.features;
  candidates.leverage_kernel = work.spec.leverage_kernel;
  candidates.classifier_kernel = work.spec.svm.kernel;
  candidates.class_count = work.input.class_count;
  candidates.labels = work.input.labels;
  candidates.predicted = work.result.predicted;
  candidates.confidence = work.confidence;
  candidates.groups = groups;
  candidates.queries_so_far = work.input.queries_so_far;
  // The barred may be among the picks, and are taken out afterwards.
  candidates.batch = work.spec.batch + work.input.barred.size();
  candidates.alpha = work.spec.alpha;
  candidates.scale = work.spec.leverage_scale;
  candidates.seed = work.spec.seed;
  if (work.strategy->requirements().pool_leverage) candidates.pool_leverage = work.result.leverage;
  return candidates;
}

/// Scatters each group's scores to the rows they belong to.
void CollectLeverage(RoundWork& work) {
  if (work.groups.empty()) return;
  work.result.leverage.assign(work.features.rows(), 0.0);
  for (const auto& group : work.groups) {
    for (std::size_t i = 0; i < group->scored.scores.size(); ++i) {
      work.result.leverage[group->rows[i]] = group->scored.scores[i];
    }
  }
}

void CollectReports(RoundWork& work) {
  for (const auto& group : work.groups) {
    if (group->scored.slack > 0) {
      absl::StrAppendFormat(&group->report.reason, "; %d that could matter scored again", group->refined);
    }
    if (const std::size_t carried = group->memory->similarities.TakeCarried(); carried > 0) {
      absl::StrAppendFormat(&group->report.reason, "; similarities to %d labeled known before", carried);
    }
    work.result.classes.push_back(group->report);
  }
}

/// Takes the barred out of the picks, and what was picked in excess because of them.
void DropBarred(RoundWork& work) {
  if (work.input.barred.empty()) return;
  std::vector<select::Pick>& picks = work.result.selection.picks;
  const absl::flat_hash_set<RowIndex> barred(work.input.barred.begin(), work.input.barred.end());
  std::erase_if(picks, [&](const select::Pick& pick) { return barred.contains(pick.row); });
  if (picks.size() > work.spec.batch) picks.resize(work.spec.batch);
}

}  // namespace

absl::Status PartitionPool(RoundWork& work) {
  const select::Requirements needs = work.strategy->requirements();
  if (needs.class_groups) {
    for (std::size_t class_index = 0; class_index < work.rows_of_class.size(); ++class_index) {
      RowList& rows = work.rows_of_class[class_index];
      work.groups.push_back(MakeGroup(work, static_cast<ClassIndex>(class_index), std::move(rows)));
    }
  }
  if (needs.pool_leverage) {
    RowList all(work.features.rows());
    for (std::size_t row = 0; row < all.size(); ++row) all[row] = static_cast<RowIndex>(row);
    work.groups.push_back(MakeGroup(work, kWholePool, std::move(all)));
  }
  ShareResources(work);
  return absl::OkStatus();
}

absl::Status SelectBatch(RoundWork& work) {
  CollectLeverage(work);
  const std::vector<select::Group> groups = GroupsForStrategy(work);
  FULCRUM_ASSIGN_OR_RETURN(work.result.selection, work.strategy->Select(CandidatesOf(work, groups)));
  const bool refined = std::ranges::any_of(work.groups, [](const auto& group) { return group->refined > 0; });
  if (refined) CollectLeverage(work);
  CollectReports(work);
  DropBarred(work);
  if (work.result.svm) work.result.model = std::make_shared<const classify::SvmModel>(std::move(work.model));
  return absl::OkStatus();
}

absl::Status CommitResult(RoundWork& work) {
  return work.commit(work.result);
}

}  // namespace fulcrum::pipeline
