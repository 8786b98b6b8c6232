// The requests of workers about tasks they hold, carried out against the store, with a status per item.
//
// Never blocks: `done` is called on the thread that sends replies when all parts of a request are on disk and the
// response, which must live until then, is complete. The request is needed during the call only. Stateless and
// thread-safe.
#pragma once

#include <functional>
#include <string>

#include "fulcrum/v1/labeling_service.pb.h"
#include "pipeline/campaign/campaign.h"
#include "pipeline/server/executor.h"

namespace fulcrum::pipeline {

/// Who asks, and who sends the answer, which must outlive the request.
struct LabelRequester {
  Campaign& campaign;
  const std::string& annotator;
  ReplySender& replies;
};

/// OK if a request has an id and not too many parts.
absl::Status CheckRequest(const std::string& request_id, int parts);

void SubmitLabels(const LabelRequester& requester, const v1::SubmitLabelsRequest& request,
                  v1::SubmitLabelsResponse& response, std::function<void()> done);
void ChangeLabels(const LabelRequester& requester, const v1::ChangeLabelsRequest& request,
                  v1::ChangeLabelsResponse& response, std::function<void()> done);
void SkipTasks(const LabelRequester& requester, const v1::SkipTasksRequest& request, v1::SkipTasksResponse& response,
               std::function<void()> done);
void ReleaseTasks(const LabelRequester& requester, const v1::ReleaseTasksRequest& request,
                  v1::ReleaseTasksResponse& response, std::function<void()> done);
void RenewLeases(const LabelRequester& requester, const v1::RenewLeasesRequest& request,
                 v1::RenewLeasesResponse& response, std::function<void()> done);

/// Releases all leases of an annotator, for one who may no longer work. Does not wait.
void ReleaseAllLeases(Campaign& campaign, const std::string& annotator);

}  // namespace fulcrum::pipeline
