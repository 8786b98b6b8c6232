#include "pipeline/campaign/round_labels.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"
#include "storage/rules/annotator_rules.h"
#include "storage/rules/next_batch.h"

namespace fulcrum::pipeline {

absl::StatusOr<std::pair<RowIndex, ClassIndex>> Locate(const CampaignPlan& plan, const CampaignPool& pool,
                                                       const storage::DecidedLabel& label) {
  const auto row = pool.ids().Find(label.item);
  const auto found = std::find(plan.classes.begin(), plan.classes.end(), label.value);
  if (row && found != plan.classes.end()) {
    return std::pair(*row, static_cast<ClassIndex>(found - plan.classes.begin()));
  }
  return absl::DataLossError(
      absl::StrCat("the log has the label '", label.value, "' for '", label.item,
                   "', and the pool or the classes no longer have it. Did the pool's files change?"));
}

absl::StatusOr<RoundLabels> ReadRoundLabels(const storage::CampaignState& state, const CampaignPlan& plan,
                                            const CampaignPool& pool, const CampaignPool& whole) {
  RoundLabels labels;
  labels.of_rows.assign(pool.rows(), kUnlabeled);
  std::vector<bool> present(plan.classes.size(), false);
  const bool weighted = state.settings().consensus == storage::CampaignSettings::Consensus::kDawidSkene;
  if (weighted) labels.weights.assign(pool.rows(), 1.0);
  for (const storage::DecidedLabel& label : state.items().DecidedLabels()) {
    const bool known = pool.ids().Find(label.item).has_value();
    if (!known && &whole != &pool && whole.ids().Find(label.item)) continue;
    // A row of a stream that is in no file of the pool yet.
    if (!known && state.offered().figures().waiting > 0) continue;
    FULCRUM_ASSIGN_OR_RETURN(const auto found, Locate(plan, pool, label));
    const auto [row, index] = found;
    labels.of_rows[row] = index;
    present[static_cast<std::size_t>(index)] = true;
    ++labels.count;
    if (!weighted) continue;
    labels.weights[row] = storage::LabelWeight(state, label.item);
    labels.weighted.rows.push_back(row);
    labels.weighted.classes.push_back(static_cast<std::size_t>(index));
    labels.weighted.weights.push_back(labels.weights[row]);
  }
  state.items().Visit([&](const storage::Item& item) {
    const bool barred = item.status == storage::ItemStatus::kDisputed || item.status == storage::ItemStatus::kSetAside;
    const auto row = barred ? pool.ids().Find(item.id) : std::nullopt;
    if (row) labels.barred.push_back(*row);
  });
  const std::vector<storage::BatchedItem> voted = storage::VotedItems(state);
  for (const storage::BatchedItem& item : voted) {
    if (const auto row = pool.ids().Find(item.item)) labels.voted.push_back(*row);
  }
  labels.barred.insert(labels.barred.end(), labels.voted.begin(), labels.voted.end());
  std::sort(labels.barred.begin(), labels.barred.end());
  labels.carried = std::min(voted.size(), plan.round.batch);
  for (std::size_t i = 0; i < labels.carried; ++i) {
    labels.carried_cost += static_cast<double>(state.settings().most_votes - 1) * voted[i].cost;
  }
  labels.classes = static_cast<std::size_t>(std::count(present.begin(), present.end(), true));
  return labels;
}

}  // namespace fulcrum::pipeline
