// From a campaign's specification to what the round, the store and the rules need, with every default filled in.
//
// A pure function and plain values; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/campaign/stopping_rules.h"
#include "pipeline/round.h"
#include "stages/ingest/normalize.h"
#include "storage/campaign_settings.h"

namespace fulcrum::v1 {
class CampaignSpec;
}  // namespace fulcrum::v1

namespace fulcrum::pipeline {

/// A model trained warm and one trained from nothing, after a restart, must give millions of rows the same classes, or
/// the batches that follow are not the same. It costs some three times the steps of LIBSVM's 1e-3.
inline constexpr double kCampaignSvmTolerance = 1e-8;

struct CampaignPlan {
  std::string name = {};
  std::vector<std::string> sources = {};
  std::string watch = {};  ///< folder whose files are appended; empty: none
  std::string id_column = {};
  std::string label_column = {};
  std::string payload_column = {};
  std::string cost_column = {};
  std::vector<std::string> classes = {};
  std::string question = {};
  std::vector<ingest::NormalizeStep> normalize = {};
  RoundSpec round = {};
  std::int64_t full_every = 0;  ///< rounds between trainings from nothing; 0: never
  StoppingRules stop = {};
  std::vector<std::string> validation_sources = {};
  storage::CampaignSettings settings = {};
};

/// InvalidArgument with everything that is impossible about the specification, a line each with the field's path.
absl::StatusOr<CampaignPlan> PlanCampaign(const v1::CampaignSpec& spec);

/// OK for what may be a campaign's name, which is also a folder's.
absl::Status CheckCampaignName(const std::string& name);

/// The specification from its text in the store; DataLoss where that cannot be read.
absl::StatusOr<v1::CampaignSpec> ParseSpecificationText(const std::string& text);

}  // namespace fulcrum::pipeline
