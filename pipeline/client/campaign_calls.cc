#include "pipeline/client/campaign_calls.h"

#include <grpcpp/channel.h>

#include <chrono>
#include <fstream>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "fulcrum/v1/campaign_service.grpc.pb.h"
#include "pipeline/client/server_connection.h"
#include "pipeline/text/status.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kCallTime{30'000};
// Reading a pool, or selecting a first batch from it, takes as long as it takes; somebody sits there and can break it
// off.
constexpr milliseconds kLongCallTime{3'600'000};
constexpr milliseconds kNoDeadline{0};
constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

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

  template <typename Message, typename Method, typename Visit>
  absl::Status ReadStream(Method method, const std::string& name, const Visit& visit) {
    v1::CampaignRequest request;
    request.set_name(name);
    return ReadStreamOf<Message>(method, request, visit);
  }

  /// Reads a stream until its end, or until `visit` says false and it is broken off.
  template <typename Message, typename Method, typename Request, typename Visit>
  absl::Status ReadStreamOf(Method method, const Request& request, const Visit& visit) {
    grpc::ClientContext context;
    connection->Prepare(kNoDeadline, context);
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

absl::StatusOr<v1::Campaign> CampaignCalls::Retrain(const std::string& name) {
  return impl_->Steer(&Stub::RetrainCampaign, name);
}

absl::StatusOr<v1::DeleteCampaignResponse> CampaignCalls::Delete(const std::string& name) {
  v1::CampaignRequest request;
  request.set_name(name);
  return impl_->Call<v1::DeleteCampaignResponse>(&Stub::DeleteCampaign, request);
}

absl::StatusOr<v1::ImportLabelsResponse> CampaignCalls::ImportLabels(const v1::ImportLabelsRequest& request) {
  return impl_->Call<v1::ImportLabelsResponse>(&Stub::ImportLabels, request);
}

absl::StatusOr<v1::AppendItemsResponse> CampaignCalls::AppendItems(const std::string& name,
                                                                   const std::string& request_id,
                                                                   const std::string& file) {
  std::ifstream bytes(file, std::ios::binary);
  if (!bytes) return absl::NotFoundError(absl::StrCat("cannot read '", file, "'"));
  grpc::ClientContext context;
  impl_->connection->Prepare(kLongCallTime, context);
  v1::AppendItemsResponse response;
  const auto writer = impl_->stub->AppendItems(&context, &response);
  v1::AppendItemsRequest part;
  part.mutable_begin()->set_name(name);
  part.mutable_begin()->set_request_id(request_id);
  std::string chunk(kChunkBytes, '\0');
  // A server that refuses says so at the end, whatever was written meanwhile.
  while (writer->Write(part) && !part.end()) {
    bytes.read(chunk.data(), static_cast<std::streamsize>(chunk.size()));
    if (bytes.gcount() > 0) {
      part.set_chunk(chunk.data(), static_cast<std::size_t>(bytes.gcount()));
    } else {
      part.set_end(true);
    }
  }
  writer->WritesDone();
  FULCRUM_RETURN_IF_ERROR(FromGrpcStatus(writer->Finish(), impl_->connection->server()));
  return response;
}

absl::StatusOr<v1::PredictResponse> CampaignCalls::Predict(const v1::PredictRequest& request) {
  return impl_->Call<v1::PredictResponse>(&Stub::Predict, request);
}

absl::StatusOr<v1::ModelDescription> CampaignCalls::GetModel(
    const std::string& name, std::int64_t round, const std::function<absl::Status(const std::string&)>& write) {
  v1::GetModelRequest request;
  request.set_name(name);
  request.set_round(round);
  v1::ModelDescription description;
  std::int64_t received = 0;
  absl::Status written;
  FULCRUM_RETURN_IF_ERROR(
      impl_->ReadStreamOf<v1::ModelChunk>(&Stub::GetModel, request, [&](const v1::ModelChunk& part) {
        if (part.has_description()) description = part.description();
        received += static_cast<std::int64_t>(part.chunk().size());
        if (part.has_chunk()) written = write(part.chunk());
        return written.ok();
      }));
  FULCRUM_RETURN_IF_ERROR(written);
  if (received == description.bytes()) return description;
  return absl::DataLossError(absl::StrCat("the server sent ", received, " bytes of a model of ", description.bytes()));
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

RequestIds::RequestIds() {
  // A seed would make a restarted worker repeat itself, which the server takes for a repeated request.
  std::random_device device;
  for (int word = 0; word < 3; ++word) absl::StrAppendFormat(&prefix_, "%08x", device());
}

std::string RequestIds::Next() {
  return absl::StrCat(prefix_, "-", ++count_);
}

}  // namespace fulcrum::pipeline
