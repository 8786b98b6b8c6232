#include "pipeline/client/campaign_watch.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/client/call_status.h"
#include "pipeline/client/campaign_calls.h"
#include "pipeline/client/printable_text.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::chrono::milliseconds kPauseBetweenStreams{300};

/// How the campaign ended, where the event says that it did.
std::optional<absl::Status> EndOf(const v1::CampaignEvent& event) {
  if (!event.has_campaign()) return std::nullopt;
  const v1::Campaign& campaign = event.campaign();
  if (campaign.state() == v1::CAMPAIGN_STATE_DONE) return absl::OkStatus();
  if (campaign.state() != v1::CAMPAIGN_STATE_FAILED) return std::nullopt;
  return absl::FailedPreconditionError(
      absl::StrCat("the campaign '", campaign.name(), "' failed: ", PrintableLine(campaign.state_reason()),
                   "; mend that, and 'fulcrum campaign start ", campaign.name(), "' goes on"));
}

}  // namespace

absl::Status WatchToTheEnd(CampaignCalls& calls, const std::string& name, const RetryPolicy& policy,
                           const Timing& timing, const std::function<void(const v1::CampaignEvent&)>& on_event) {
  Retrier retrier(policy, timing, /*seed=*/0);
  std::optional<absl::Status> end;
  while (!end) {
    FULCRUM_RETURN_IF_ERROR(retrier.Call([&]() -> absl::Status {
      bool told = false;
      const absl::Status status = calls.Watch(name, [&](const v1::CampaignEvent& event) {
        told = true;
        on_event(event);
        end = EndOf(event);
        return !end;
      });
      // A stream that told something was no failed attempt: patience starts anew.
      return told && MayPass(status) ? absl::OkStatus() : status;
    }));
    if (!end && !timing.sleep(kPauseBetweenStreams)) return absl::CancelledError("asked to end");
  }
  return *end;
}

}  // namespace fulcrum::pipeline
