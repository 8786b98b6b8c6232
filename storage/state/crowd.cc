#include "storage/state/crowd.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "stages/core/number_text.h"
#include "stages/core/status_macros.h"
#include "storage/checkpoint/checkpoint.h"
#include "storage/state/campaign_state.h"

namespace fulcrum::storage {
namespace {

// Probabilities that differ by less are equal: sums in another order differ by more.
constexpr double kTie = 1e-9;
constexpr int kVoiceUnits = 10'000;

absl::StatusOr<double> CrowdNumber(const std::string& cell) {
  if (const auto number = ParseNumber(cell)) return *number;
  return absl::DataLossError("the estimate of the annotators is damaged");
}

}  // namespace

std::string CrowdToText(const Crowd& crowd) {
  JsonRows rows;
  rows.Row().Add(crowd.model.crowd_accuracy);
  for (const double prior : crowd.model.priors) rows.Add(prior);
  const std::size_t cells = crowd.model.classes * crowd.model.classes;
  for (std::size_t a = 0; a < crowd.annotators.size(); ++a) {
    rows.Row().Add(crowd.annotators[a]).Add(crowd.model.accuracy[a]);
    for (std::size_t k = 0; k < cells; ++k) rows.Add(crowd.model.confusion[a * cells + k]);
  }
  return rows.Take();
}

absl::StatusOr<Crowd> CrowdFromText(absl::string_view text) {
  FULCRUM_ASSIGN_OR_RETURN(const auto rows, JsonRows::Parse(text));
  if (rows.empty() || rows[0].size() < 3) return absl::DataLossError("the estimate of the annotators is empty");
  Crowd crowd;
  crowd.model.classes = rows[0].size() - 1;
  FULCRUM_ASSIGN_OR_RETURN(crowd.model.crowd_accuracy, CrowdNumber(rows[0][0]));
  for (std::size_t c = 1; c < rows[0].size(); ++c) {
    FULCRUM_ASSIGN_OR_RETURN(crowd.model.priors.emplace_back(), CrowdNumber(rows[0][c]));
  }
  for (std::size_t a = 1; a < rows.size(); ++a) {
    if (rows[a].size() != 2 + crowd.model.classes * crowd.model.classes) {
      return absl::DataLossError("the estimate of the annotators has a row of another length");
    }
    crowd.annotators.push_back(rows[a][0]);
    FULCRUM_ASSIGN_OR_RETURN(crowd.model.accuracy.emplace_back(), CrowdNumber(rows[a][1]));
    for (std::size_t k = 2; k < rows[a].size(); ++k) {
      FULCRUM_ASSIGN_OR_RETURN(crowd.model.confusion.emplace_back(), CrowdNumber(rows[a][k]));
    }
  }
  return crowd;
}

std::string VoicesToText(const Voices& voices) {
  JsonRows rows;
  for (const auto& [item, probabilities] : voices.probabilities) {
    rows.Row().Add(item);
    for (const double p : probabilities) rows.Add(static_cast<std::int64_t>(std::lround(p * kVoiceUnits)));
  }
  return rows.Take();
}

absl::StatusOr<Voices> VoicesFromText(absl::string_view text) {
  FULCRUM_ASSIGN_OR_RETURN(const auto rows, JsonRows::Parse(text));
  Voices voices;
  for (const std::vector<std::string>& cells : rows) {
    std::vector<double> probabilities;
    for (std::size_t c = 1; c < cells.size(); ++c) {
      std::int64_t units = 0;
      if (!absl::SimpleAtoi(cells[c], &units) || units < 0 || units > kVoiceUnits) break;
      probabilities.push_back(static_cast<double>(units) / kVoiceUnits);
    }
    if (probabilities.size() < 2 || cells.size() != rows[0].size() || probabilities.size() + 1 != cells.size()) {
      return absl::DataLossError("what the classifier says about the items is damaged");
    }
    voices.probabilities.emplace(cells[0], std::move(probabilities));
  }
  return voices;
}

std::span<const double> VoiceOn(const Voices* voices, absl::string_view item) {
  if (voices == nullptr) return {};
  const auto found = voices->probabilities.find(item);
  return found == voices->probabilities.end() ? std::span<const double>() : found->second;
}

namespace {

/// The votes that count, with annotators by their places in the crowd. With a majority `classes` gets the values that
/// it does not have: its settings do not name the classes.
std::vector<consensus::ItemVote> CountedVotes(std::span<const Vote> votes, bool majority, const Crowd* crowd,
                                              std::vector<std::string>& classes) {
  std::vector<consensus::ItemVote> counted;
  for (const Vote& vote : votes) {
    if (vote.withdrawn) continue;
    auto found = std::find(classes.begin(), classes.end(), vote.value);
    if (found == classes.end() && majority) found = classes.insert(classes.end(), vote.value);
    if (found == classes.end()) continue;
    std::size_t annotator = crowd == nullptr ? 0 : crowd->annotators.size();
    if (crowd != nullptr) {
      const auto known = std::lower_bound(crowd->annotators.begin(), crowd->annotators.end(), vote.annotator);
      if (known != crowd->annotators.end() && *known == vote.annotator) {
        annotator = static_cast<std::size_t>(known - crowd->annotators.begin());
      }
    }
    counted.push_back({annotator, static_cast<std::size_t>(found - classes.begin())});
  }
  return counted;
}

/// By a consensus of votes of different worth.
std::vector<double> PosteriorOf(std::span<const consensus::ItemVote> counted, const CampaignSettings& settings,
                                const Crowd* crowd, std::span<const double> voice) {
  const std::size_t classes = settings.classes.size();
  const bool estimated = crowd != nullptr && crowd->model.classes == classes;
  const bool heard = settings.classifier_weight > 0 && voice.size() == classes;
  return consensus::ItemPosterior(
      estimated ? crowd->model : consensus::PriorModel(classes), counted,
      {.probabilities = heard ? voice : std::span<const double>(), .weight = settings.classifier_weight});
}

std::vector<double> SharesOf(std::span<const consensus::ItemVote> counted, std::size_t classes) {
  std::vector<double> shares(classes, 0.0);
  for (const consensus::ItemVote& vote : counted) shares[vote.value] += 1 / static_cast<double>(counted.size());
  return shares;
}

}  // namespace

std::vector<double> BeliefAbout(std::span<const Vote> votes, const CampaignSettings& settings, const Crowd* crowd,
                                std::span<const double> voice) {
  if (settings.consensus == CampaignSettings::Consensus::kMajority) return {};
  std::vector<std::string> classes = settings.classes;
  const auto counted = CountedVotes(votes, /*majority=*/false, crowd, classes);
  if (counted.empty()) return {};
  return PosteriorOf(counted, settings, crowd, voice);
}

std::optional<Opinion> OpinionOf(std::span<const Vote> votes, const CampaignSettings& settings, const Crowd* crowd,
                                 std::span<const double> voice) {
  Opinion opinion;
  std::vector<std::string> classes = settings.classes;
  const bool majority = settings.consensus == CampaignSettings::Consensus::kMajority;
  const auto counted = CountedVotes(votes, majority, crowd, classes);
  if (counted.empty()) return std::nullopt;
  const std::vector<double> posterior =
      majority ? SharesOf(counted, classes.size()) : PosteriorOf(counted, settings, crowd, voice);
  std::size_t best = 0;
  for (std::size_t c = 1; c < posterior.size(); ++c) {
    if (posterior[c] > posterior[best] + kTie) best = c;
  }
  for (std::size_t c = 0; c < posterior.size(); ++c) {
    opinion.tied = opinion.tied || (c != best && posterior[c] >= posterior[best] - kTie);
  }
  opinion.value = classes[best];
  opinion.confidence = posterior[best];
  opinion.votes = static_cast<std::int64_t>(counted.size());
  return opinion;
}

VoteVerdict JudgeByCrowd(std::span<const Vote> votes, const CampaignSettings& settings, const Crowd* crowd,
                         std::span<const double> voice, bool again) {
  const std::optional<Opinion> opinion = OpinionOf(votes, settings, crowd, voice);
  const std::int64_t total = opinion ? opinion->votes : 0;
  if (total < settings.overlap) return {.votes_wanted = settings.overlap - total};
  const bool enough = !again && settings.first_confidence > 0;
  const bool sure =
      settings.confidence == 0 || opinion->confidence >= (enough ? settings.first_confidence : settings.confidence);
  if (total < settings.most_votes && (!sure || opinion->tied)) return {.votes_wanted = 1};
  if (opinion->tied) return {.outcome = VoteOutcome::kDisputed};
  return {.outcome = VoteOutcome::kDecided, .value = opinion->value};
}

namespace {

// The times of a round are learned from so many answers on: so many times what its answers should take, but not less
// than a short break, or a long one.
constexpr std::int64_t kLeastTimed = 20;
constexpr double kSoftFactor = 3, kHardFactor = 30;
constexpr std::chrono::minutes kLeastSoftTime{1};
constexpr std::chrono::hours kLeastHardTime{1};

// What an answer is thought to take before any was given, and the answers that this weighs; the mean of all annotators
// weighs as many for each of them as the second.
constexpr double kUsualSeconds = 30, kUsualAnswers = 20, kPriorAnswers = 5;

double Smoothed(const AnnotatorActivity& activity, double seconds, double answers) {
  return (static_cast<double>(activity.micros) * 1e-6 + answers * seconds) /
         (static_cast<double>(activity.timed) + answers);
}

}  // namespace

double CampaignState::SecondsOf(absl::string_view annotator) const {
  return Smoothed(activity_.Of(annotator), Smoothed(activity_.total(), kUsualSeconds, kUsualAnswers), kPriorAnswers);
}

double CampaignState::CostOf(const Item& item, absl::string_view annotator) const {
  const auto& terms = figures_.settings.annotators;
  const auto own = terms.find(annotator);
  if (own == terms.end()) return item.cost;
  constexpr double kSecondsAnHour = 3600;
  const double time = own->second.hourly_cost > 0 ? SecondsOf(annotator) / kSecondsAnHour : 0;
  return item.cost + own->second.cost + own->second.hourly_cost * time;
}

double CampaignState::LeftFor(absl::string_view annotator) const {
  const auto& terms = figures_.settings.annotators;
  const auto own = terms.find(annotator);
  if (own == terms.end() || own->second.budget <= 0) return std::numeric_limits<double>::infinity();
  return own->second.budget - activity_.Of(annotator).cost - leases_.HeldBy(annotator).cost;
}

RoundPolicy CampaignState::Policy() const {
  const CampaignSettings& settings = figures_.settings;
  RoundPolicy policy = settings.policy;
  const AnnotatorActivity& all = activity_.total();
  if (!(policy.learn_soft || policy.learn_hard) || all.timed < kLeastTimed) return policy;
  // With adaptive overlap most items need more than one vote.
  const auto votes = static_cast<double>(std::max<std::int64_t>(settings.overlap, settings.confidence > 0 ? 2 : 1));
  const double answers = static_cast<double>(LastProgress().items) * votes;
  const double seconds =
      answers * all.MeanSeconds() / static_cast<double>(std::max<std::size_t>(activity_.at_work(), 1));
  const auto times = [&](double factor) { return std::chrono::milliseconds(std::llround(seconds * factor * 1e3)); };
  if (policy.learn_soft) policy.soft_time = std::max<std::chrono::milliseconds>(kLeastSoftTime, times(kSoftFactor));
  if (policy.learn_hard) policy.hard_time = std::max<std::chrono::milliseconds>(kLeastHardTime, times(kHardFactor));
  return policy;
}

}  // namespace fulcrum::storage
