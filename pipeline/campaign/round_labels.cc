#include "pipeline/campaign/round_labels.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/round/pool_source.h"
#include "stages/classify/classifier.h"
#include "stages/core/status_macros.h"
#include "stages/kernel/kernel_tiles.h"
#include "storage/rules/annotator_rules.h"
#include "storage/rules/round_rules.h"

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

namespace {

// Examples that are cross-validated in every round, and numbers that are stored about them.
constexpr std::size_t kMostHeard = 2000;
constexpr std::size_t kMostNumbers = 200'000;
// With fewer labels a part of them may lack a class.
constexpr std::size_t kLeastHeld = 10;

}  // namespace

void LabeledRows::KeepLast(std::size_t most) {
  if (rows.size() <= most) return;
  const auto excess = static_cast<std::ptrdiff_t>(rows.size() - most);
  rows.erase(rows.begin(), rows.begin() + excess);
  classes.erase(classes.begin(), classes.begin() + excess);
  weights.erase(weights.begin(), weights.begin() + excess);
}

absl::StatusOr<Matrix<double>> PredictHeldOut(const CampaignPlan& plan, const CampaignPool& pool,
                                              const TunedSettings* tuning, const LabeledRows& labeled) {
  classify::SvmParameters parameters = plan.round.svm;
  std::unique_ptr<kernel::Features> own;
  const kernel::Features* features = &pool.features();
  RowList rows = labeled.rows;
  if (tuning != nullptr) {
    UseChoice(tuning->chosen, plan.classes.size(), parameters);
    FULCRUM_ASSIGN_OR_RETURN(ingest::PoolFeatures raw, pool.RawRows(labeled.rows));
    FULCRUM_ASSIGN_OR_RETURN(const auto normalizer, pool.NormalizerFor(tuning->chosen.normalize));
    normalizer->Apply(raw);
    own = MakeFeatures(std::move(raw));
    features = own.get();
    std::iota(rows.begin(), rows.end(), RowIndex{0});
  }
  FULCRUM_ASSIGN_OR_RETURN(const classify::ClassifierEntry* const entry,
                           classify::FindClassifier(parameters.classifier));
  Matrix<double> gram(rows.size(), rows.size());
  kernel::ComputeKernelSymmetric(parameters.kernel, *features, rows, gram.view());
  std::vector<std::uint32_t> positions(rows.size());
  std::iota(positions.begin(), positions.end(), 0u);
  const std::vector<double> costs(plan.classes.size(), parameters.c);
  return classify::HeldOutProbabilities(
      *entry, {gram.view(), positions, labeled.classes, plan.classes.size(), costs, labeled.weights}, plan.round.seed);
}

absl::StatusOr<storage::Voices> HearClassifier(const CampaignPlan& plan, const CampaignPool& pool,
                                               const classify::SvmModel& model, const TunedSettings* tuning,
                                               const HeardRows& heard) {
  storage::Voices voices;
  const auto add = [&](std::span<const RowIndex> rows, const Matrix<double>& probabilities) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::span<const double> row = probabilities.row(i);
      voices.probabilities[pool.ids().TextOf(rows[i])].assign(row.begin(), row.end());
    }
  };
  if (!heard.others.empty() && model.has_probabilities()) {
    FULCRUM_ASSIGN_OR_RETURN(const Matrix<double> probabilities, classify::Probabilities(model, heard.decisions));
    add(heard.others, probabilities);
  }
  LabeledRows labeled = heard.labeled;
  labeled.KeepLast(std::min(kMostHeard, kMostNumbers / plan.classes.size()));
  const bool one_class = std::ranges::all_of(labeled.classes, [&](std::size_t c) { return c == labeled.classes[0]; });
  if (labeled.rows.size() < kLeastHeld || one_class) return voices;
  FULCRUM_ASSIGN_OR_RETURN(const Matrix<double> held_out, PredictHeldOut(plan, pool, tuning, labeled));
  add(labeled.rows, held_out);
  return voices;
}

}  // namespace fulcrum::pipeline
