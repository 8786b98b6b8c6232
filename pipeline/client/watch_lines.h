// What `fulcrum campaign watch` prints where nobody looks on: a line a round, and one for whatever else happens.
//
// What a round learned and what it selected become one line. How far its stages are, each label and the turns between
// selecting and waiting are left out: a round has hundreds of them. Not thread-safe.
#pragma once

#include <optional>
#include <string>

#include "fulcrum/v1/campaign_service.pb.h"

namespace fulcrum::pipeline {

class WatchLines {
 public:
  /// The lines that are due after this event, with their ends; often none.
  std::string Follow(const v1::CampaignEvent& event);

 private:
  std::string Follow(const v1::CampaignEvent& event, const v1::BatchCommitted& batch);
  std::string Follow(const v1::CampaignEvent& event, const v1::Campaign& campaign);
  /// What a model that no batch followed is worth telling, once.
  std::string TellModel();

  std::optional<v1::CampaignEvent> model_;
  std::string told_state_;
};

}  // namespace fulcrum::pipeline
