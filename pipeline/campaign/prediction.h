// What a campaign's model says of examples: those of the pool by name, or rows of features.
//
// A pure function of its arguments; thread-safe.
#pragma once

#include "absl/status/statusor.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/campaign/campaign_plan.h"
#include "pipeline/campaign/campaign_pool.h"
#include "pipeline/campaign/model_shelf.h"

namespace fulcrum::pipeline {

/// NotFound for an example that the pool does not have; InvalidArgument for a row with other features than the pool's,
/// or too many of them.
absl::StatusOr<v1::PredictResponse> Predict(const CampaignPlan& plan, const CampaignPool& pool,
                                            const ShelvedModel& model, const v1::PredictRequest& request);

}  // namespace fulcrum::pipeline
