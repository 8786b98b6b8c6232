// The requests of workers about tasks they hold, carried out against the store, a status an item.
//
// Never blocks: each answer comes through a callback, on the store's writing thread, when all of its parts are on disk.
// Stateless and thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "fulcrum/v1/labeling_service.pb.h"
#include "pipeline/campaign/campaign.h"

namespace fulcrum::pipeline {

/// OK where a request has an id and a bearable number of parts.
absl::Status CheckRequest(const std::string& request_id, int parts);

void SubmitLabels(Campaign& campaign, const std::string& annotator, const v1::SubmitLabelsRequest& request,
                  std::function<void(v1::SubmitLabelsResponse)> done);
void ChangeLabels(Campaign& campaign, const std::string& annotator, const v1::ChangeLabelsRequest& request,
                  std::function<void(v1::ChangeLabelsResponse)> done);
void SkipTasks(Campaign& campaign, const std::string& annotator, const v1::SkipTasksRequest& request,
               std::function<void(v1::SkipTasksResponse)> done);
void ReleaseTasks(Campaign& campaign, const std::string& annotator, const v1::ReleaseTasksRequest& request,
                  std::function<void(v1::ReleaseTasksResponse)> done);
void RenewLeases(Campaign& campaign, const std::string& annotator, const v1::RenewLeasesRequest& request,
                 std::function<void(v1::RenewLeasesResponse)> done);

}  // namespace fulcrum::pipeline
