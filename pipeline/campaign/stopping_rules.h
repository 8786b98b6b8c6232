// When a campaign is over. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
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
  std::int64_t plateau_rounds = 0;
  double plateau_improvement = 0.001;
};

/// How good a round's model is.
struct ModelScore {
  std::optional<double> accuracy = {};  ///< on the validation set
  double changed_share = 1;             ///< of the pool's predictions, against the round before
};

/// What is known after a model was trained.
struct CampaignProgress {
  std::int64_t labels = 0;                  ///< bought so far
  double cost = 0;                          ///< of those labels
  std::int64_t rounds = 0;                  ///< answered so far
  std::span<const ModelScore> models = {};  ///< of every round that had one, the last one included
};

/// Rounds in a row, up to the last, in which no more than this share of the predictions changed.
std::int64_t StableRounds(std::span<const ModelScore> models, double share);

/// Rounds in a row, up to the last, that were not better than the best before by more than `improvement`. Better is a
/// higher accuracy, or fewer changed predictions where nothing is measured.
std::int64_t PlateauRounds(std::span<const ModelScore> models, double improvement);

/// The rule that is met, in words; nothing where the campaign goes on.
std::optional<std::string> StoppingReason(const StoppingRules& rules, const CampaignProgress& progress);

}  // namespace fulcrum::pipeline
