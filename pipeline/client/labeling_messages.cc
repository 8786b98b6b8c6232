#include "absl/strings/str_cat.h"
#include "pipeline/client/labeling_calls.h"
#include "pipeline/text/status.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

absl::Time ToTime(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

void SetLease(const LeaseName& lease, v1::LeaseRef& ref) {
  ref.set_lease_id(lease.lease_id);
  ref.set_epoch(lease.epoch);
}

absl::Status ToStatus(const v1::ItemStatus& status) {
  return FromItemCode(status.code(), status.message());
}

absl::Status CheckCount(std::size_t wanted, int got) {
  if (static_cast<std::size_t>(got) == wanted) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the server gave ", got, " results for ", wanted,
                                          " elements; compare its version with 'fulcrum --version'"));
}

}  // namespace

template <typename Message>
Message LabelingMessages::Request(const std::string& request_id) const {
  Message request;
  request.set_campaign(campaign_);
  request.set_annotator(annotator_);
  request.set_request_id(request_id);
  return request;
}

v1::AcquireTasksRequest LabelingMessages::Acquire(const std::string& request_id, int most,
                                                  std::chrono::milliseconds wait) const {
  auto request = Request<v1::AcquireTasksRequest>(request_id);
  request.set_max_tasks(most);
  request.mutable_wait()->set_seconds(wait.count() / 1000);
  request.mutable_wait()->set_nanos(static_cast<int>(wait.count() % 1000) * 1'000'000);
  return request;
}

v1::RenewLeasesRequest LabelingMessages::Renew(const std::string& request_id,
                                               const std::vector<LeaseName>& leases) const {
  auto request = Request<v1::RenewLeasesRequest>(request_id);
  for (const LeaseName& lease : leases) SetLease(lease, *request.add_leases());
  return request;
}

v1::SubmitLabelsRequest LabelingMessages::Submit(const std::string& request_id,
                                                 const std::vector<LabelAnswer>& labels) const {
  auto request = Request<v1::SubmitLabelsRequest>(request_id);
  for (const LabelAnswer& label : labels) {
    v1::Label& added = *request.add_labels();
    SetLease(label.lease, *added.mutable_lease());
    added.set_item_id(label.item_id);
    added.set_value(label.value);
  }
  return request;
}

v1::SkipTasksRequest LabelingMessages::Skip(const std::string& request_id, const std::vector<SkipAnswer>& skips) const {
  auto request = Request<v1::SkipTasksRequest>(request_id);
  for (const SkipAnswer& skip : skips) {
    v1::Skip& added = *request.add_skips();
    SetLease(skip.lease, *added.mutable_lease());
    added.set_reason(static_cast<v1::SkipReason>(skip.reason));
  }
  return request;
}

v1::ReleaseTasksRequest LabelingMessages::Release(const std::string& request_id,
                                                  const std::vector<LeaseName>& leases) const {
  auto request = Request<v1::ReleaseTasksRequest>(request_id);
  for (const LeaseName& lease : leases) SetLease(lease, *request.add_leases());
  return request;
}

v1::WorkRequest::Hello LabelingMessages::Hello(int credit, const std::string& session_id) const {
  v1::WorkRequest::Hello hello;
  hello.set_campaign(campaign_);
  hello.set_annotator(annotator_);
  hello.set_credit(credit);
  hello.set_session_id(session_id);
  return hello;
}

v1::GetPayloadRequest LabelingMessages::Payload(const std::string& item_id) const {
  v1::GetPayloadRequest request;
  request.set_campaign(campaign_);
  request.set_item_id(item_id);
  return request;
}

WorkTask ToTask(const v1::Task& task) {
  return {.lease = {task.lease_id(), task.epoch()},
          .item_id = task.item_id(),
          .round = task.round(),
          .expires_at = task.has_expires_at() ? ToTime(task.expires_at()) : absl::InfiniteFuture(),
          .payload = task.payload(),
          .large_payload_bytes = static_cast<std::size_t>(task.large_payload_bytes()),
          .classes = {task.classes().begin(), task.classes().end()},
          .question = task.question()};
}

TaskBatch ToBatch(const v1::AcquireTasksResponse& response) {
  TaskBatch batch{.campaign_over = response.campaign_over()};
  for (const v1::Task& task : response.tasks()) batch.tasks.push_back(ToTask(task));
  for (const v1::WaitingFor& reason : response.waiting_for()) batch.waiting_for.push_back(reason.text());
  return batch;
}

absl::StatusOr<std::vector<RenewResult>> RenewResults(std::size_t wanted, const v1::RenewLeasesResponse& response) {
  FULCRUM_RETURN_IF_ERROR(CheckCount(wanted, response.results_size()));
  std::vector<RenewResult> results;
  for (const auto& result : response.results()) {
    results.push_back({.status = ToStatus(result.status()), .expires_at = ToTime(result.expires_at())});
  }
  return results;
}

absl::StatusOr<std::vector<SubmitResult>> SubmitResults(std::size_t wanted, const v1::SubmitLabelsResponse& response) {
  FULCRUM_RETURN_IF_ERROR(CheckCount(wanted, response.results_size()));
  std::vector<SubmitResult> results;
  for (const auto& result : response.results()) {
    results.push_back({.status = ToStatus(result.status()), .late = result.late()});
    if (MayPass(results.back().status)) return results.back().status;
  }
  return results;
}

absl::StatusOr<std::vector<absl::Status>> ItemStatuses(
    std::size_t wanted, const google::protobuf::RepeatedPtrField<v1::ItemStatus>& results) {
  FULCRUM_RETURN_IF_ERROR(CheckCount(wanted, results.size()));
  std::vector<absl::Status> statuses;
  for (const v1::ItemStatus& result : results) {
    statuses.push_back(ToStatus(result));
    if (MayPass(statuses.back())) return statuses.back();
  }
  return statuses;
}

}  // namespace fulcrum::pipeline
