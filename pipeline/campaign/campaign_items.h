// The examples of a campaign one by one: why a round selected them, and what became of them.
//
// Pure functions of what they are given, and calls of the campaign's store; thread-safe.
#pragma once

#include <span>

#include "absl/status/statusor.h"
#include "fulcrum/v1/item_service.pb.h"
#include "pipeline/campaign/campaign.h"
#include "pipeline/campaign/campaign_plan.h"
#include "pipeline/campaign/pool/campaign_pool.h"
#include "pipeline/round/round.h"
#include "storage/campaign_files.h"
#include "storage/state/item_queries.h"

namespace fulcrum::pipeline {

/// The record of a batch: what is known about each of its examples when it is selected. `labels` are those of the rows,
/// `features` those of the round's model, `decisions` the decision values of the picks in their order if there is a
/// model, `given` the class probabilities by row if a model process predicted them.
storage::RoundBatch RecordBatch(const CampaignPlan& plan, const CampaignPool& pool, const kernel::Features& features,
                                const RoundResult& result, std::span<const ClassIndex> labels,
                                ConstMatrixView decisions, std::span<const float> given = {});

/// The record of what a round computed for every row.
storage::RoundScores RecordScores(const CampaignPlan& plan, const CampaignPool& pool, const RoundResult& result,
                                  std::span<const ClassIndex> labels);

/// The state of an example as clients see it.
v1::ItemState ItemStateOf(const storage::FoundItem& found);

/// A page of examples; `page_size` is at most so many.
absl::StatusOr<v1::ListItemsResponse> ListItems(Campaign& campaign, const v1::ListItemsRequest& request,
                                                std::size_t page_size);
/// Everything about one example. NotFound if the pool does not have it.
absl::StatusOr<v1::GetItemResponse> GetItem(Campaign& campaign, const v1::GetItemRequest& request);
absl::StatusOr<v1::Item> ResolveItem(Campaign& campaign, const v1::ResolveItemRequest& request,
                                     const ChangeOrder& order);
absl::StatusOr<v1::Item> ReturnItem(Campaign& campaign, const v1::ReturnItemRequest& request, const ChangeOrder& order);

}  // namespace fulcrum::pipeline
