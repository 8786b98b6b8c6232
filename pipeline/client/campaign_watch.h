// Follows a campaign to its end, across restarts of the server. Not thread-safe.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "pipeline/client/retry.h"

namespace fulcrum::v1 {
class CampaignEvent;
}  // namespace fulcrum::v1

namespace fulcrum::pipeline {

class CampaignCalls;

/// Tells `on_event` what happens. OK when the campaign is done, FailedPrecondition with the reason when it failed; a
/// server that is away is waited for as the policy says.
absl::Status WatchToTheEnd(CampaignCalls& calls, const std::string& name, const RetryPolicy& policy,
                           const Timing& timing, const std::function<void(const v1::CampaignEvent&)>& on_event);

}  // namespace fulcrum::pipeline
