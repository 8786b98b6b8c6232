// The settings of a campaign that its store depends on, as they are in its log.
//
// A change is an event, so that replaying the log gives the same state. A plain value with a text form.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/clock.h"

namespace fulcrum::storage {

// When a round is over: all is answered, or a share after a soft time, or a minimum at a hard time.
//
// A pure function of counts and times. Stateless and thread-safe.

struct RoundPolicy {
  /// After this time `soft_share` of the items suffices; zero: no soft time.
  std::chrono::milliseconds soft_time{0};
  double soft_share = 0.9;  ///< in (0, 1]
  /// After this time `hard_minimum` labeled items suffice; zero: no hard time.
  std::chrono::milliseconds hard_time{0};
  std::int64_t hard_minimum = 1;
  /// The times are learned from how long answers take (CampaignState::Policy); until then they are as above.
  bool learn_soft = false;
  bool learn_hard = false;

  bool operator==(const RoundPolicy&) const = default;
};

struct RoundProgress {
  Time started_at = {};
  std::int64_t items = 0;
  std::int64_t labeled = 0;  ///< decided by votes
  std::int64_t settled = 0;  ///< labeled, disputed or set aside: nothing more is expected of them
};

struct RoundVerdict {
  bool advance = false;
  std::string reason = {};              ///< why it advances
  std::optional<Time> look_again = {};  ///< if it does not: when it may advance by time
};

RoundVerdict JudgeRound(const RoundPolicy& policy, const RoundProgress& progress, Time now);

/// What an annotator costs, and may cost.
struct AnnotatorTerms {
  double cost = 0;    ///< of an answer, besides what the item costs
  double budget = 0;  ///< of all answers; 0: no limit
  /// Besides both: of an hour, for the time that an answer is expected to take when its task is leased.
  double hourly_cost = 0;

  bool operator==(const AnnotatorTerms&) const = default;
};

struct CampaignSettings {
  std::int64_t overlap = 1;     ///< votes per item
  std::int64_t margin = 1;      ///< votes by which the first must lead the second
  std::int64_t most_votes = 3;  ///< an item still undecided with so many is disputed
  std::chrono::milliseconds lease_time{600'000};
  std::int64_t most_attempts = 5;  ///< leases of a slot that ended without an answer, until its item is set aside
  /// After this time without a vote, skip, lease or batch, items that no active annotator can decide are disputed; see
  /// stuck_items.h.
  std::chrono::milliseconds dispute_time{86'400'000};
  std::int64_t bad_item_reports = 1;  ///< annotators who call an item bad, until it is set aside
  std::int64_t label_budget = 0;      ///< labels to be bought; 0: no limit
  double cost_budget = 0;             ///< sum of the labels' costs; 0: no limit
  RoundPolicy policy = {};

  /// How votes become labels.
  enum class Consensus : std::int64_t { kMajority = 0, kDawidSkene = 1 };
  Consensus consensus = Consensus::kMajority;
  /// With Dawid-Skene: an item needs another vote until its most probable class has this probability, or it has
  /// `most_votes`. 0: it needs `overlap` votes.
  double confidence = 0;
  /// An item that is asked about for the first time needs only this probability; 0: as `confidence`.
  double first_confidence = 0;
  double classifier_weight = 0;   ///< of what the classifier says besides the votes, in [0, 1]; 0: it says nothing
  double gold_rate = 0;           ///< share of the tasks that have a known answer; see kGoldSource
  double pause_below = 0;         ///< annotators whose accuracy is surely below it are paused; 0: none
  std::int64_t pause_votes = 20;  ///< that an annotator has before that
  /// The classes, in their order; only with Dawid-Skene.
  std::vector<std::string> classes = {};
  /// By annotator; others cost nothing besides the item.
  std::map<std::string, AnnotatorTerms, std::less<>> annotators = {};
  /// The specification of the campaign, which the store does not interpret.
  std::string specification = {};

  bool operator==(const CampaignSettings&) const = default;
};

/// Labels that are imported from a source of this name are known answers: annotators are asked about them to see how
/// good they are.
inline constexpr char kGoldSource[] = "gold";

/// InvalidArgument with everything that is impossible about the settings.
absl::Status CheckSettings(const CampaignSettings& settings);

/// One "name=value" per line, the specification last.
std::string SettingsToText(const CampaignSettings& settings);
/// DataLoss if SettingsToText did not write the text; unknown names are refused.
absl::StatusOr<CampaignSettings> SettingsFromText(absl::string_view text);

}  // namespace fulcrum::storage
