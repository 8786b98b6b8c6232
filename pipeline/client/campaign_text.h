// Campaigns and what happens in them, as people read it. Stateless and thread-safe.
#pragma once

#include <string>

namespace fulcrum::v1 {
class Campaign;
class CampaignEvent;
class ListCampaignsResponse;
class ModelTrained;
}  // namespace fulcrum::v1

namespace fulcrum::pipeline {

/// "waiting", "done": the state in small letters.
std::string StateName(const v1::Campaign& campaign);

/// One campaign a line, under a heading.
std::string CampaignTable(const v1::ListCampaignsResponse& campaigns);

/// One campaign, a line a fact.
std::string CampaignDetails(const v1::Campaign& campaign);

/// What a round learned, as part of a line.
std::string ModelText(const v1::ModelTrained& model);

/// One event on a line, with its time, without the line end.
std::string EventLine(const v1::CampaignEvent& event);

}  // namespace fulcrum::pipeline
