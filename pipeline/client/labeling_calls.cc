#include "pipeline/client/labeling_calls.h"

#include <grpcpp/channel.h>

#include <algorithm>
#include <future>
#include <utility>

#include "fulcrum/v1/labeling_service.grpc.pb.h"
#include "pipeline/client/server_connection.h"
#include "pipeline/text/status.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kCallTime{15'000};
constexpr milliseconds kPayloadTime{120'000};
constexpr milliseconds kStopCheck{100};

class GrpcLabelingCalls final : public LabelingCalls {
 public:
  GrpcLabelingCalls(std::shared_ptr<const ServerConnection> connection, std::string campaign, std::string annotator,
                    const StopFlag& stop)
      : connection_(std::move(connection)),
        messages_(std::move(campaign), std::move(annotator)),
        stop_(stop),
        stub_(v1::LabelingService::NewStub(connection_->channel())) {}

  absl::StatusOr<TaskBatch> Acquire(const std::string& request_id, int most, milliseconds wait) override {
    v1::AcquireTasksResponse response;
    FULCRUM_RETURN_IF_ERROR(AcquireOrStop(messages_.Acquire(request_id, most, wait), wait + kCallTime, response));
    return ToBatch(response);
  }

  absl::StatusOr<std::vector<RenewResult>> Renew(const std::string& request_id,
                                                 const std::vector<LeaseName>& leases) override {
    v1::RenewLeasesResponse response;
    FULCRUM_RETURN_IF_ERROR(Call(&Stub::RenewLeases, messages_.Renew(request_id, leases), response));
    return RenewResults(leases.size(), response);
  }

  absl::StatusOr<std::vector<SubmitResult>> Submit(const std::string& request_id,
                                                   const std::vector<LabelAnswer>& labels) override {
    v1::SubmitLabelsResponse response;
    FULCRUM_RETURN_IF_ERROR(Call(&Stub::SubmitLabels, messages_.Submit(request_id, labels), response));
    return SubmitResults(labels.size(), response);
  }

  absl::StatusOr<std::vector<absl::Status>> Skip(const std::string& request_id,
                                                 const std::vector<SkipAnswer>& skips) override {
    v1::SkipTasksResponse response;
    FULCRUM_RETURN_IF_ERROR(Call(&Stub::SkipTasks, messages_.Skip(request_id, skips), response));
    return ItemStatuses(skips.size(), response.results());
  }

  absl::StatusOr<std::vector<absl::Status>> Release(const std::string& request_id,
                                                    const std::vector<LeaseName>& leases) override {
    v1::ReleaseTasksResponse response;
    FULCRUM_RETURN_IF_ERROR(Call(&Stub::ReleaseTasks, messages_.Release(request_id, leases), response));
    return ItemStatuses(leases.size(), response.results());
  }

  absl::StatusOr<std::string> GetPayload(const std::string& item_id) override {
    grpc::ClientContext context;
    connection_->Prepare(kPayloadTime, context);
    const auto reader = stub_->GetPayload(&context, messages_.Payload(item_id));
    std::string payload;
    std::int64_t bytes = 0;
    for (v1::GetPayloadResponse part; reader->Read(&part);) {
      bytes = std::max(bytes, part.payload_bytes());
      payload += part.chunk();
    }
    FULCRUM_RETURN_IF_ERROR(FromGrpcStatus(reader->Finish(), connection_->server()));
    if (static_cast<std::int64_t>(payload.size()) == bytes) return payload;
    return absl::DataLossError("the server sent only a part of the payload");
  }

 private:
  using Stub = v1::LabelingService::Stub;

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
  const LabelingMessages messages_;
  const StopFlag& stop_;
  const std::unique_ptr<v1::LabelingService::Stub> stub_;
};

}  // namespace

std::unique_ptr<LabelingCalls> MakeLabelingCalls(std::shared_ptr<const ServerConnection> connection,
                                                 std::string campaign, std::string annotator, const StopFlag& stop) {
  return std::make_unique<GrpcLabelingCalls>(std::move(connection), std::move(campaign), std::move(annotator), stop);
}

}  // namespace fulcrum::pipeline
