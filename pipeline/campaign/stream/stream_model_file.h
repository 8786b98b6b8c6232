// What the rows of a stream are compared with during a round, as a file next to the scores of the round.
//
// The file makes the decisions of a campaign that is opened again the same as before. Stateless; one campaign is
// handled by one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "pipeline/campaign/campaign_plan.h"
#include "pipeline/campaign/pool/campaign_pool.h"
#include "stages/stream/stream_model.h"
#include "storage/campaign_folder.h"

namespace fulcrum::pipeline {

struct RoundStreamModel {
  std::shared_ptr<const stream::StreamModel> model = {};
  /// How the features are normalised besides what the pool does; empty: not at all.
  std::string normalize = {};
};

/// Returns the name for CommitBatchRequest::files.
absl::StatusOr<std::string> WriteStreamModel(const storage::CampaignFolder& folder, std::int64_t round,
                                             const RoundStreamModel& model);

/// Of a committed round. NotFound if it has none, DataLoss if the file is damaged.
absl::StatusOr<RoundStreamModel> ReadStreamModel(const storage::CampaignFolder& folder, std::int64_t round);

/// Before the first round, when nothing is known but the rows that the campaign began with: leverage and novelty.
absl::StatusOr<RoundStreamModel> FirstStreamModel(const CampaignPlan& plan, const CampaignPool& pool);

}  // namespace fulcrum::pipeline
