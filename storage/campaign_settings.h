// The rules a campaign's store plays by, as they stand in its log.
//
// Changing them is an event, so that replaying the log gives the same state. A plain value with a text form.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/round_policy.h"

namespace fulcrum::storage {

struct CampaignSettings {
  std::int64_t overlap = 1;     ///< votes an item gets
  std::int64_t margin = 1;      ///< votes by which the first must lead the second
  std::int64_t most_votes = 3;  ///< an item still undecided with so many is disputed
  std::chrono::milliseconds lease_time{600'000};
  std::int64_t most_attempts = 5;     ///< leases of a slot that ended without an answer, until its item is set aside
  std::int64_t bad_item_reports = 1;  ///< annotators who call an item bad, until it is set aside
  std::int64_t label_budget = 0;      ///< labels to be bought; 0: no limit
  double cost_budget = 0;             ///< sum of the labels' costs; 0: no limit
  RoundPolicy policy = {};
  /// What the store only keeps: the campaign's specification in the words of whoever made it.
  std::string specification = {};

  bool operator==(const CampaignSettings&) const = default;
};

/// InvalidArgument with everything that is impossible about the settings.
absl::Status CheckSettings(const CampaignSettings& settings);

/// One "name=value" a line, the specification last.
std::string SettingsToText(const CampaignSettings& settings);
/// DataLoss where the text is not one that SettingsToText wrote; names it does not know are refused.
absl::StatusOr<CampaignSettings> SettingsFromText(absl::string_view text);

}  // namespace fulcrum::storage
