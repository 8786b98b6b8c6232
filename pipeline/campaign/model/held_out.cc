#include "pipeline/campaign/model/held_out.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "pipeline/round/pool_source.h"
#include "stages/classify/classifier.h"
#include "stages/core/status_macros.h"
#include "stages/kernel/kernel_tiles.h"

namespace fulcrum::pipeline {
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
