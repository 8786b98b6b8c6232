#include "pipeline/client/watch_lines.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/client/campaign_text.h"

namespace fulcrum::pipeline {

std::string WatchLines::Follow(const v1::CampaignEvent& event) {
  switch (event.event_case()) {
    case v1::CampaignEvent::kModel: {
      std::string before = TellModel();
      model_ = event;
      return before;
    }
    case v1::CampaignEvent::kBatch:
      return Follow(event, event.batch());
    case v1::CampaignEvent::kCampaign:
      return Follow(event, event.campaign());
    case v1::CampaignEvent::kItems:
      return absl::StrCat(TellModel(), EventLine(event), "\n");
    default:
      return "";
  }
}

std::string WatchLines::TellModel() {
  const std::optional<v1::CampaignEvent> model = std::exchange(model_, std::nullopt);
  return model ? absl::StrCat(EventLine(*model), "\n") : "";
}

std::string WatchLines::Follow(const v1::CampaignEvent& event, const v1::BatchCommitted& batch) {
  const bool same_round = model_ && model_->model().round() == batch.round();
  if (!same_round) return absl::StrCat(TellModel(), EventLine(event), "\n");
  const std::string learned = ModelText(model_->model());
  model_.reset();
  return absl::StrCat(EventLine(event), "; ", learned, "\n");
}

std::string WatchLines::Follow(const v1::CampaignEvent& event, const v1::Campaign& campaign) {
  const bool at_work = campaign.state() == v1::CAMPAIGN_STATE_RUNNING || campaign.state() == v1::CAMPAIGN_STATE_WAITING;
  std::string state = absl::StrCat(at_work ? "at work" : StateName(campaign), campaign.state_reason());
  // Its batch may still be to come.
  if (state == std::exchange(told_state_, state)) return "";
  return absl::StrCat(TellModel(), EventLine(event), "\n");
}

}  // namespace fulcrum::pipeline
