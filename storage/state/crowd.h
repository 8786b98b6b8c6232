// What is estimated about the annotators of a campaign, and the consensus of votes that follows from it.
//
// The estimate is an event of the log (AnnotatorsEstimated), so a consensus is a function of the log up to it. Until
// the first estimate every annotator is like any other; see stages/consensus/consensus.h. Plain values and pure
// functions; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "stages/consensus/consensus.h"
#include "storage/state/campaign_records.h"
#include "storage/state/campaign_settings.h"

namespace fulcrum::storage {

struct Crowd {
  std::int64_t sequence = 0;                 ///< of the event; set when it is applied
  std::int64_t votes = 0;                    ///< submitted until then
  std::vector<std::string> annotators = {};  ///< sorted; in the order of the model
  consensus::AnnotatorModel model = {};

  bool operator==(const Crowd&) const = default;
};

/// A table of numbers: the classes' priors, then a confusion matrix per annotator.
std::string CrowdToText(const Crowd& crowd);
/// DataLoss if CrowdToText did not write the text.
absl::StatusOr<Crowd> CrowdFromText(absl::string_view text);

/// What a classifier says about items that have votes, or are about to get them: a voice besides those of the
/// annotators. It did not see the labels of these items. An event of the log (ClassifierHeard), until the next one.
struct Voices {
  std::int64_t sequence = 0;                                                   ///< of the event; set when it is applied
  std::map<std::string, std::vector<double>, std::less<>> probabilities = {};  ///< by item and class

  bool operator==(const Voices&) const = default;
};

/// Probabilities are rounded to four digits.
std::string VoicesToText(const Voices& voices);
/// DataLoss if VoicesToText did not write the text, or the items have different numbers of classes.
absl::StatusOr<Voices> VoicesFromText(absl::string_view text);
/// What is said about an item; empty: nothing. `voices` may be null.
std::span<const double> VoiceOn(const Voices* voices, absl::string_view item);

/// What votes say about an item.
struct Opinion {
  std::string value = {};  ///< the most probable class; of equally probable ones the first
  double confidence = 0;   ///< its probability
  bool tied = false;       ///< another class is as probable
  std::int64_t votes = 0;  ///< without the withdrawn ones
};

/// The probabilities of the classes of CampaignSettings::classes; empty without votes on one of them, or with the
/// consensus by majority. `voice` is what a classifier says (VoiceOn), which counts by the weight in the settings.
std::vector<double> BeliefAbout(std::span<const Vote> votes, const CampaignSettings& settings, const Crowd* crowd,
                                std::span<const double> voice = {});

/// Nothing without votes on one of the classes. With the consensus by majority the probabilities are shares of votes.
std::optional<Opinion> OpinionOf(std::span<const Vote> votes, const CampaignSettings& settings, const Crowd* crowd,
                                 std::span<const double> voice = {});

/// With `confidence`, one more vote is wanted at a time until the most probable class has that probability
/// (`first_confidence`, unless the item is asked about again) or there are `most_votes`; then the most probable class
/// decides. Without it, `overlap` votes decide. Classes that are equally probable after `most_votes` are a dispute.
VoteVerdict JudgeByCrowd(std::span<const Vote> votes, const CampaignSettings& settings, const Crowd* crowd,
                         std::span<const double> voice = {}, bool again = false);

}  // namespace fulcrum::storage
