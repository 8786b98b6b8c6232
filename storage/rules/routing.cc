#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "stages/consensus/consensus.h"
#include "storage/rules/lease_rules.h"
#include "storage/state/crowd.h"

namespace fulcrum::storage {
namespace {

// Answers, and the share of them, that an annotator or an item begins with.
constexpr double kPriorTasks = 10, kPriorItemTasks = 2, kPriorAnswered = 0.95;
// An annotator with more leases than this, and this many times the mean of the others, takes tasks in their order.
constexpr double kLeastLoad = 10, kMostLoad = 2;

double Odds(double share) {
  return share / (1 - share);
}

double Smoothed(double answered, double skipped, double prior_tasks) {
  return (answered + prior_tasks * kPriorAnswered) / (answered + skipped + prior_tasks);
}

/// Far more than the others.
bool IsOverloaded(const LeaseTable& leases, const std::string& annotator) {
  double own = 0, others = 0;
  std::set<std::string> names;
  if (static_cast<double>(leases.size()) <= kLeastLoad) return false;
  leases.Visit([&](const Lease& lease) {
    if (lease.annotator == annotator) {
      ++own;
    } else {
      ++others;
      names.insert(lease.annotator);
    }
  });
  if (own <= kLeastLoad || names.empty()) return false;
  return own > kMostLoad * others / static_cast<double>(names.size());
}

double Entropy(std::span<const double> shares) {
  double entropy = 0;
  for (const double share : shares) entropy -= share > 0 ? share * std::log(share) : 0;
  return entropy;
}

/// Expected reduction of the entropy by one answer.
double Information(const consensus::AnnotatorModel& model, std::size_t annotator, std::span<const double> belief) {
  std::vector<double> after(belief.size());
  double left = 0;
  for (std::size_t answer = 0; answer < belief.size(); ++answer) {
    double chance = 0;
    for (std::size_t c = 0; c < belief.size(); ++c) {
      chance += after[c] = belief[c] * model.Likelihood(annotator, c, answer);
    }
    if (chance <= 0) continue;
    for (double& value : after) value /= chance;
    left += chance * Entropy(after);
  }
  return std::max(Entropy(belief) - left, 0.0);
}

}  // namespace

Suitability::Suitability(const CampaignState& state, const std::string& annotator) : state_(state) {
  double answers = 0, skips = 0;
  for (const auto& [name, activity] : state.activity().all()) {
    answers += static_cast<double>(activity.answers);
    skips += static_cast<double>(activity.skips);
  }
  const AnnotatorActivity own = state.activity().Of(annotator);
  odds_ = Odds(Smoothed(static_cast<double>(own.answers), static_cast<double>(own.skips), kPriorTasks)) /
          Odds(Smoothed(answers, skips, kPriorTasks));
  const Crowd* const crowd = state.crowd();
  bool known = false;
  if (crowd != nullptr) {
    const auto found = std::lower_bound(crowd->annotators.begin(), crowd->annotators.end(), annotator);
    known = found != crowd->annotators.end() && *found == annotator;
    place_ = known ? static_cast<std::size_t>(found - crowd->annotators.begin()) : crowd->annotators.size();
  }
  matters_ = (known || skips > 0) && !IsOverloaded(state.leases(), annotator);
}

double Suitability::ChanceOfAnswer(const Item& item) const {
  // An annotator who skips no more than the others takes what comes.
  if (item.declined_by.empty() || odds_ >= 1) return 1;
  const double answered =
      Smoothed(static_cast<double>(item.votes.size()), static_cast<double>(item.declined_by.size()), kPriorItemTasks);
  const double odds = Odds(answered) * odds_;
  return std::min(odds / (1 + odds) / kPriorAnswered, 1.0);
}

double Suitability::RelativeInformation(const Item& item) const {
  const Crowd* const crowd = state_.crowd();
  if (crowd == nullptr || place_ == crowd->annotators.size() || item.votes.empty()) return 1;
  const std::vector<double> belief = BeliefAbout(item.votes, state_.settings(), crowd);
  if (belief.empty()) return 1;
  // Of no annotator in particular: the accuracy of all of them together, whatever the class.
  const double usual = Information(crowd->model, crowd->annotators.size(), belief);
  const double before = Information(crowd->model, place_, crowd->model.priors);
  const double usual_before = Information(crowd->model, crowd->annotators.size(), crowd->model.priors);
  if (usual <= 0 || before <= 0 || usual_before <= 0) return 1;
  // Compared to what it tells about an item without votes, which has 1: being good at all items decides nothing here.
  return Information(crowd->model, place_, belief) / usual / (before / usual_before);
}

double Suitability::Of(const Item& item) const {
  return ChanceOfAnswer(item) * RelativeInformation(item);
}

}  // namespace fulcrum::storage
