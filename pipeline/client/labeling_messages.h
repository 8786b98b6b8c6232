// The messages of LabelingService in the terms of LabelingCalls, for calls and for the stream.
//
// A plain value and pure functions; thread-safe.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "fulcrum/v1/labeling_service.pb.h"
#include "pipeline/client/labeling_calls.h"

namespace fulcrum::pipeline {

/// Requests of one annotator for one campaign.
class LabelingMessages {
 public:
  LabelingMessages(std::string campaign, std::string annotator)
      : campaign_(std::move(campaign)), annotator_(std::move(annotator)) {}

  v1::AcquireTasksRequest Acquire(const std::string& request_id, int most, std::chrono::milliseconds wait) const;
  v1::RenewLeasesRequest Renew(const std::string& request_id, const std::vector<LeaseName>& leases) const;
  v1::SubmitLabelsRequest Submit(const std::string& request_id, const std::vector<LabelAnswer>& labels) const;
  v1::SkipTasksRequest Skip(const std::string& request_id, const std::vector<SkipAnswer>& skips) const;
  v1::ReleaseTasksRequest Release(const std::string& request_id, const std::vector<LeaseName>& leases) const;
  v1::WorkRequest::Hello Hello(int credit, const std::string& session_id) const;
  v1::GetPayloadRequest Payload(const std::string& item_id) const;

 private:
  template <typename Message>
  Message Request(const std::string& request_id) const;

  std::string campaign_;
  std::string annotator_;
};

WorkTask ToTask(const v1::Task& task);
TaskBatch ToBatch(const v1::AcquireTasksResponse& response);

// The results of a request with so many elements; Internal if the server gave another number of them. An element that
// failed for a reason that may pass fails the whole call: a repeat gives the stored answers of the others.
absl::StatusOr<std::vector<RenewResult>> RenewResults(std::size_t wanted, const v1::RenewLeasesResponse& response);
absl::StatusOr<std::vector<SubmitResult>> SubmitResults(std::size_t wanted, const v1::SubmitLabelsResponse& response);
absl::StatusOr<std::vector<absl::Status>> ItemStatuses(
    std::size_t wanted, const google::protobuf::RepeatedPtrField<v1::ItemStatus>& results);

}  // namespace fulcrum::pipeline
