#include <algorithm>
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

/// Tasks that were skipped, or held until their time was up: silence says as much as a skip.
double Unanswered(const AnnotatorActivity& activity) {
  return static_cast<double>(activity.skips + activity.expired);
}

double Unanswered(const Item& item) {
  std::int64_t attempts = 0;
  for (const Slot& slot : item.slots) attempts += slot.attempts;
  // Slots of earlier rounds are forgotten, who skipped is not.
  return static_cast<double>(std::max(attempts, static_cast<std::int64_t>(item.declined_by.size())));
}

/// Far more than the others.
bool IsOverloaded(const LeaseTable& leases, const std::string& annotator) {
  const auto own = static_cast<double>(leases.HeldBy(annotator).leases);
  const double others = static_cast<double>(leases.size()) - own;
  if (own <= kLeastLoad || others == 0) return false;
  return own > kMostLoad * others / static_cast<double>(leases.holders() - 1);
}

}  // namespace

Suitability::Suitability(const CampaignState& state, const std::string& annotator) : state_(state) {
  const auto odds = [](const AnnotatorActivity& activity) {
    return Odds(Smoothed(static_cast<double>(activity.answers), Unanswered(activity), kPriorTasks));
  };
  odds_ = odds(state.activity().Of(annotator)) / odds(state.activity().total());
  const Crowd* const crowd = state.crowd();
  bool known = false;
  if (crowd != nullptr) {
    const auto found = std::lower_bound(crowd->annotators.begin(), crowd->annotators.end(), annotator);
    known = found != crowd->annotators.end() && *found == annotator;
    place_ = known ? static_cast<std::size_t>(found - crowd->annotators.begin()) : crowd->annotators.size();
  }
  matters_ = (known || Unanswered(state.activity().total()) > 0) && !IsOverloaded(state.leases(), annotator);
}

double Suitability::ChanceOfAnswer(const Item& item) const {
  // An annotator who skips no more than the others takes what comes.
  const double unanswered = Unanswered(item);
  if (unanswered == 0 || odds_ >= 1) return 1;
  const double answered = Smoothed(static_cast<double>(item.votes.size()), unanswered, kPriorItemTasks);
  const double odds = Odds(answered) * odds_;
  return std::min(odds / (1 + odds) / kPriorAnswered, 1.0);
}

double Suitability::RelativeInformation(const Item& item) const {
  const Crowd* const crowd = state_.crowd();
  if (crowd == nullptr || place_ == crowd->annotators.size() || item.votes.empty()) return 1;
  const std::vector<double> belief = BeliefAbout(item.votes, state_.settings(), crowd, state_.VoiceOn(item.id));
  if (belief.empty()) return 1;
  // Of no annotator in particular: the accuracy of all of them together, whatever the class.
  const double usual = consensus::ExpectedInformation(crowd->model, crowd->annotators.size(), belief);
  const double before = consensus::ExpectedInformation(crowd->model, place_, crowd->model.priors);
  const double usual_before =
      consensus::ExpectedInformation(crowd->model, crowd->annotators.size(), crowd->model.priors);
  if (usual <= 0 || before <= 0 || usual_before <= 0) return 1;
  // Compared to what it tells about an item without votes, which has 1: being good at all items decides nothing here.
  return consensus::ExpectedInformation(crowd->model, place_, belief) / usual / (before / usual_before);
}

double Suitability::Of(const Item& item) const {
  return ChanceOfAnswer(item) * RelativeInformation(item);
}

}  // namespace fulcrum::storage
