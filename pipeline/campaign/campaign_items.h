// The examples of a campaign one by one: why a round selected them, and what became of them. Below, its annotators.
//
// Pure functions of what they are given, and calls of the campaign's store; thread-safe.
#pragma once

#include <cstddef>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fulcrum/v1/annotator_service.pb.h"
#include "fulcrum/v1/item_service.pb.h"
#include "pipeline/campaign/campaign.h"
#include "pipeline/campaign/campaign_plan.h"
#include "pipeline/campaign/pool/campaign_pool.h"
#include "pipeline/round/round.h"
#include "storage/campaign_files.h"
#include "storage/maintenance/maintenance.h"
#include "storage/state/ledger.h"

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

// The annotators of a campaign: how good they are, who is paused, and labels that are likely wrong.
//
// Each call reads what it needs from the campaign's log by itself, so that workers do not wait for it; thread-safe.

absl::StatusOr<v1::ListAnnotatorsResponse> ListAnnotators(Campaign& campaign);
absl::Status PauseAnnotator(Campaign& campaign, const v1::PauseAnnotatorRequest& request, const ChangeOrder& order);
absl::Status ResumeAnnotator(Campaign& campaign, const v1::ResumeAnnotatorRequest& request, const ChangeOrder& order);
/// At most `most` of them. FailedPrecondition with too few labels.
absl::StatusOr<v1::ListLabelErrorsResponse> ListLabelErrors(Campaign& campaign, std::size_t most);
/// The same for an export: none if there are too few labels to look for them.
absl::StatusOr<storage::LikelyErrors> FindLikelyErrors(Campaign& campaign);

}  // namespace fulcrum::pipeline
