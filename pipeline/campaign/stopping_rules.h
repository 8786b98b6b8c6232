// When a campaign is over. A pure function; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace fulcrum::pipeline {

/// Zero: no such rule.
struct StoppingRules {
  std::int64_t labels = 0;
  double cost = 0;
  std::int64_t rounds = 0;
  double accuracy = 0;
  std::int64_t stable_rounds = 0;
  double stable_share = 0.001;
};

/// What is known after a model was trained.
struct CampaignProgress {
  std::int64_t labels = 0;  ///< bought so far
  double cost = 0;          ///< of those labels
  std::int64_t rounds = 0;  ///< answered so far
  std::optional<double> accuracy = {};
  std::int64_t stable_rounds = 0;  ///< in a row up to now
};

/// The rule that is met, in words; nothing where the campaign goes on.
std::optional<std::string> StoppingReason(const StoppingRules& rules, const CampaignProgress& progress);

}  // namespace fulcrum::pipeline
