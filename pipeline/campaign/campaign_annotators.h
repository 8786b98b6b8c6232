// The annotators of a campaign: how good they are, who is paused, and labels that are likely wrong.
//
// Each call reads what it needs from the campaign's log by itself, so that workers do not wait for it; thread-safe.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fulcrum/v1/annotator_service.pb.h"
#include "pipeline/campaign/campaign.h"

namespace fulcrum::pipeline {

absl::StatusOr<v1::ListAnnotatorsResponse> ListAnnotators(Campaign& campaign);
absl::Status PauseAnnotator(Campaign& campaign, const v1::PauseAnnotatorRequest& request, const ChangeOrder& order);
absl::Status ResumeAnnotator(Campaign& campaign, const v1::ResumeAnnotatorRequest& request, const ChangeOrder& order);
/// At most `most` of them, the most likely first; without labels that an administrator has decided or imported.
/// Computed again only if a label or a model has changed, once at a time. FailedPrecondition with too few labels.
absl::StatusOr<v1::ListLabelErrorsResponse> ListLabelErrors(Campaign& campaign, std::size_t most);

}  // namespace fulcrum::pipeline
