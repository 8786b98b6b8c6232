#include "pipeline/client/campaign_calls.h"

#include <grpcpp/channel.h>

#include <chrono>
#include <utility>

#include "fulcrum/v1/campaign_service.grpc.pb.h"
#include "pipeline/client/call_status.h"
#include "pipeline/client/server_connection.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kCallTime{30'000};
// Reading a pool, or selecting a first batch from it, takes as long as it takes; somebody sits there and can break it
// off.
constexpr milliseconds kLongCallTime{3'600'000};
constexpr milliseconds kNoDeadline{0};

}  // namespace

struct CampaignCalls::Impl {
  template <typename Response, typename Method, typename Request>
  absl::StatusOr<Response> Call(Method method, const Request& request, milliseconds deadline = kCallTime) {
    grpc::ClientContext context;
    connection->Prepare(deadline, context);
    Response response;
    FULCRUM_RETURN_IF_ERROR(FromGrpcStatus((stub.get()->*method)(&context, request, &response), connection->server()));
    return response;
  }

  template <typename Method>
  absl::StatusOr<v1::Campaign> Steer(Method method, const std::string& name, milliseconds deadline = kCallTime) {
    v1::CampaignRequest request;
    request.set_name(name);
    return Call<v1::Campaign>(method, request, deadline);
  }

  /// Reads a stream until its end, or until `visit` says false and it is broken off.
  template <typename Message, typename Method, typename Visit>
  absl::Status ReadStream(Method method, const std::string& name, const Visit& visit) {
    grpc::ClientContext context;
    connection->Prepare(kNoDeadline, context);
    v1::CampaignRequest request;
    request.set_name(name);
    const auto reader = (stub.get()->*method)(&context, request);
    Message message;
    while (reader->Read(&message)) {
      if (visit(message)) continue;
      context.TryCancel();
      reader->Finish();
      return absl::OkStatus();
    }
    return FromGrpcStatus(reader->Finish(), connection->server());
  }

  std::shared_ptr<const ServerConnection> connection;
  std::unique_ptr<v1::CampaignService::Stub> stub;
};

using Stub = v1::CampaignService::Stub;

CampaignCalls::CampaignCalls(std::shared_ptr<const ServerConnection> connection)
    : impl_(new Impl{connection, v1::CampaignService::NewStub(connection->channel())}) {}

CampaignCalls::~CampaignCalls() = default;

absl::StatusOr<v1::Campaign> CampaignCalls::Create(const v1::CampaignSpec& spec) {
  v1::CreateCampaignRequest request;
  *request.mutable_spec() = spec;
  return impl_->Call<v1::Campaign>(&Stub::CreateCampaign, request, kLongCallTime);
}

absl::StatusOr<v1::Campaign> CampaignCalls::Get(const std::string& name) {
  v1::GetCampaignRequest request;
  request.set_name(name);
  return impl_->Call<v1::Campaign>(&Stub::GetCampaign, request);
}

absl::StatusOr<v1::ListCampaignsResponse> CampaignCalls::ListAll() {
  v1::ListCampaignsResponse all;
  v1::ListCampaignsRequest request;
  do {
    FULCRUM_ASSIGN_OR_RETURN(auto page, impl_->Call<v1::ListCampaignsResponse>(&Stub::ListCampaigns, request));
    all.mutable_campaigns()->MergeFrom(page.campaigns());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return all;
}

absl::StatusOr<v1::Campaign> CampaignCalls::Start(const std::string& name) {
  return impl_->Steer(&Stub::StartCampaign, name, kLongCallTime);
}

absl::StatusOr<v1::Campaign> CampaignCalls::Pause(const std::string& name) {
  return impl_->Steer(&Stub::PauseCampaign, name);
}

absl::StatusOr<v1::Campaign> CampaignCalls::Resume(const std::string& name) {
  return impl_->Steer(&Stub::ResumeCampaign, name);
}

absl::StatusOr<v1::Campaign> CampaignCalls::Stop(const std::string& name) {
  return impl_->Steer(&Stub::StopCampaign, name);
}

absl::StatusOr<v1::DeleteCampaignResponse> CampaignCalls::Delete(const std::string& name) {
  v1::CampaignRequest request;
  request.set_name(name);
  return impl_->Call<v1::DeleteCampaignResponse>(&Stub::DeleteCampaign, request);
}

absl::StatusOr<v1::ImportLabelsResponse> CampaignCalls::ImportLabels(const v1::ImportLabelsRequest& request) {
  return impl_->Call<v1::ImportLabelsResponse>(&Stub::ImportLabels, request);
}

absl::Status CampaignCalls::ExportLabels(const std::string& name,
                                         const std::function<absl::Status(const v1::ExportedLabel&)>& visit) {
  absl::Status visited;
  FULCRUM_RETURN_IF_ERROR(
      impl_->ReadStream<v1::ExportedLabel>(&Stub::ExportLabels, name, [&](const v1::ExportedLabel& label) {
        visited = visit(label);
        return visited.ok();
      }));
  return visited;
}

absl::Status CampaignCalls::Watch(const std::string& name, const std::function<bool(const v1::CampaignEvent&)>& visit) {
  return impl_->ReadStream<v1::CampaignEvent>(&Stub::WatchCampaign, name, visit);
}

}  // namespace fulcrum::pipeline
