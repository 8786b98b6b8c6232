#include "storage/state/crowd.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "stages/core/number_text.h"
#include "stages/core/status_macros.h"
#include "storage/checkpoint/checkpoint.h"

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
                         std::span<const double> voice) {
  const std::optional<Opinion> opinion = OpinionOf(votes, settings, crowd, voice);
  const std::int64_t total = opinion ? opinion->votes : 0;
  if (total < settings.overlap) return {.votes_wanted = settings.overlap - total};
  const bool sure = settings.confidence == 0 || opinion->confidence >= settings.confidence;
  if (total < settings.most_votes && (!sure || opinion->tied)) return {.votes_wanted = 1};
  if (opinion->tied) return {.outcome = VoteOutcome::kDisputed};
  return {.outcome = VoteOutcome::kDecided, .value = opinion->value};
}

}  // namespace fulcrum::storage
