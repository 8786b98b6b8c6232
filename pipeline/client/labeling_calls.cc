#include "pipeline/client/labeling_calls.h"

#include <grpcpp/channel.h>

#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "fulcrum/v1/labeling_service.grpc.pb.h"
#include "pipeline/client/retry.h"
#include "pipeline/client/server_connection.h"
#include "pipeline/text/status.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kCallTime{15'000};
constexpr milliseconds kStopCheck{100};

absl::Time ToTime(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

WorkTask ToTask(const v1::Task& task) {
  return {.lease = {task.lease_id(), task.epoch()},
          .item_id = task.item_id(),
          .round = task.round(),
          .expires_at = task.has_expires_at() ? ToTime(task.expires_at()) : absl::InfiniteFuture(),
          .payload = task.payload(),
          .classes = {task.classes().begin(), task.classes().end()},
          .question = task.question()};
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

/// Elements that may pass fail the whole call: a repeat gives the stored answers of the others.
absl::StatusOr<std::vector<absl::Status>> ToStatuses(
    std::size_t wanted, const google::protobuf::RepeatedPtrField<v1::ItemStatus>& results) {
  FULCRUM_RETURN_IF_ERROR(CheckCount(wanted, results.size()));
  std::vector<absl::Status> statuses;
  for (const v1::ItemStatus& result : results) {
    statuses.push_back(ToStatus(result));
    if (MayPass(statuses.back())) return statuses.back();
  }
  return statuses;
}

class GrpcLabelingCalls final : public LabelingCalls {
 public:
  GrpcLabelingCalls(std::shared_ptr<const ServerConnection> connection, std::string campaign, std::string annotator,
                    const StopFlag& stop)
      : connection_(std::move(connection)),
        campaign_(std::move(campaign)),
        annotator_(std::move(annotator)),
        stop_(stop),
        stub_(v1::LabelingService::NewStub(connection_->channel())) {}

  absl::StatusOr<TaskBatch> Acquire(const std::string& request_id, int most, milliseconds wait) override {
    auto request = Request<v1::AcquireTasksRequest>(request_id);
    request.set_max_tasks(most);
    request.mutable_wait()->set_seconds(wait.count() / 1000);
    request.mutable_wait()->set_nanos(static_cast<int>(wait.count() % 1000) * 1'000'000);
    v1::AcquireTasksResponse response;
    FULCRUM_RETURN_IF_ERROR(AcquireOrStop(request, wait + kCallTime, response));
    TaskBatch batch{.tasks = {}, .campaign_over = response.campaign_over()};
    for (const v1::Task& task : response.tasks()) batch.tasks.push_back(ToTask(task));
    return batch;
  }

  absl::StatusOr<std::vector<RenewResult>> Renew(const std::string& request_id,
                                                 const std::vector<LeaseName>& leases) override {
    auto request = Request<v1::RenewLeasesRequest>(request_id);
    for (const LeaseName& lease : leases) SetLease(lease, *request.add_leases());
    v1::RenewLeasesResponse response;
    FULCRUM_RETURN_IF_ERROR(Call(&v1::LabelingService::Stub::RenewLeases, request, response));
    FULCRUM_RETURN_IF_ERROR(CheckCount(leases.size(), response.results_size()));
    std::vector<RenewResult> results;
    for (const auto& result : response.results()) {
      results.push_back({.status = ToStatus(result.status()), .expires_at = ToTime(result.expires_at())});
    }
    return results;
  }

  absl::StatusOr<std::vector<SubmitResult>> Submit(const std::string& request_id,
                                                   const std::vector<LabelAnswer>& labels) override {
    auto request = Request<v1::SubmitLabelsRequest>(request_id);
    for (const LabelAnswer& label : labels) {
      v1::Label& added = *request.add_labels();
      SetLease(label.lease, *added.mutable_lease());
      added.set_item_id(label.item_id);
      added.set_value(label.value);
    }
    v1::SubmitLabelsResponse response;
    FULCRUM_RETURN_IF_ERROR(Call(&v1::LabelingService::Stub::SubmitLabels, request, response));
    FULCRUM_RETURN_IF_ERROR(CheckCount(labels.size(), response.results_size()));
    std::vector<SubmitResult> results;
    for (const auto& result : response.results()) {
      results.push_back({.status = ToStatus(result.status()), .late = result.late()});
      if (MayPass(results.back().status)) return results.back().status;
    }
    return results;
  }

  absl::StatusOr<std::vector<absl::Status>> Skip(const std::string& request_id,
                                                 const std::vector<SkipAnswer>& skips) override {
    auto request = Request<v1::SkipTasksRequest>(request_id);
    for (const SkipAnswer& skip : skips) {
      v1::Skip& added = *request.add_skips();
      SetLease(skip.lease, *added.mutable_lease());
      added.set_reason(static_cast<v1::SkipReason>(skip.reason));
    }
    v1::SkipTasksResponse response;
    FULCRUM_RETURN_IF_ERROR(Call(&v1::LabelingService::Stub::SkipTasks, request, response));
    return ToStatuses(skips.size(), response.results());
  }

  absl::StatusOr<std::vector<absl::Status>> Release(const std::string& request_id,
                                                    const std::vector<LeaseName>& leases) override {
    auto request = Request<v1::ReleaseTasksRequest>(request_id);
    for (const LeaseName& lease : leases) SetLease(lease, *request.add_leases());
    v1::ReleaseTasksResponse response;
    FULCRUM_RETURN_IF_ERROR(Call(&v1::LabelingService::Stub::ReleaseTasks, request, response));
    return ToStatuses(leases.size(), response.results());
  }

 private:
  template <typename Message>
  Message Request(const std::string& request_id) const {
    Message request;
    request.set_campaign(campaign_);
    request.set_annotator(annotator_);
    request.set_request_id(request_id);
    return request;
  }

  template <typename Method, typename Request, typename Response>
  absl::Status Call(Method method, const Request& request, Response& response) {
    grpc::ClientContext context;
    connection_->Prepare(kCallTime, context);
    return FromGrpcStatus((stub_.get()->*method)(&context, request, &response), connection_->server());
  }

  // The wait may be long, and a person who ends the worker should not have to sit through it.
  absl::Status AcquireOrStop(const v1::AcquireTasksRequest& request, milliseconds deadline,
                             v1::AcquireTasksResponse& response) {
    grpc::ClientContext context;
    connection_->Prepare(deadline, context);
    // Shared: the callback may still be leaving set_value when this function has returned.
    const auto done = std::make_shared<std::promise<grpc::Status>>();
    std::future<grpc::Status> ended = done->get_future();
    stub_->async()->AcquireTasks(&context, &request, &response,
                                 [done](grpc::Status status) { done->set_value(std::move(status)); });
    while (ended.wait_for(kStopCheck) != std::future_status::ready) {
      if (stop_.raised()) context.TryCancel();
    }
    const grpc::Status status = ended.get();
    if (!status.ok() && stop_.raised()) return absl::CancelledError("asked to end while waiting for tasks");
    return FromGrpcStatus(status, connection_->server());
  }

  const std::shared_ptr<const ServerConnection> connection_;
  const std::string campaign_;
  const std::string annotator_;
  const StopFlag& stop_;
  const std::unique_ptr<v1::LabelingService::Stub> stub_;
};

}  // namespace

std::unique_ptr<LabelingCalls> MakeLabelingCalls(std::shared_ptr<const ServerConnection> connection,
                                                 std::string campaign, std::string annotator, const StopFlag& stop) {
  return std::make_unique<GrpcLabelingCalls>(std::move(connection), std::move(campaign), std::move(annotator), stop);
}

}  // namespace fulcrum::pipeline
