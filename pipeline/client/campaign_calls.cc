#include "pipeline/client/campaign_calls.h"

#include <grpcpp/channel.h>

#include <chrono>
#include <fstream>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "fulcrum/v1/annotator_service.grpc.pb.h"
#include "fulcrum/v1/campaign_service.grpc.pb.h"
#include "fulcrum/v1/item_service.grpc.pb.h"
#include "fulcrum/v1/operation_service.grpc.pb.h"
#include "pipeline/client/server_connection.h"
#include "pipeline/text/status.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kCampaignCallTime{30'000};
// Reading a pool, or selecting a first batch from it, may take long; the user can interrupt it.
constexpr milliseconds kLongCallTime{3'600'000};
constexpr milliseconds kNoDeadline{0};
constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

}  // namespace

struct CampaignCalls::Impl {
  template <typename Response, typename Service, typename Method, typename Request>
  absl::StatusOr<Response> CallOn(Service& service, Method method, const Request& request,
                                  milliseconds deadline = kCampaignCallTime) {
    grpc::ClientContext context;
    connection->Prepare(deadline, context);
    Response response;
    FULCRUM_RETURN_IF_ERROR(FromGrpcStatus((service.*method)(&context, request, &response), connection->server()));
    return response;
  }
  template <typename Response, typename Method, typename Request>
  absl::StatusOr<Response> Call(Method method, const Request& request) {
    return CallOn<Response>(*stub, method, request);
  }

  /// A call that changes the state of a campaign and describes it.
  template <typename Request, typename Response, typename Method>
  absl::StatusOr<v1::Campaign> Steer(Method method, const std::string& name, const std::string& reason = {}) {
    Request request;
    request.set_campaign(name);
    request.set_request_id(RequestIds().Next());
    if constexpr (requires { request.set_reason(reason); }) request.set_reason(reason);
    FULCRUM_ASSIGN_OR_RETURN(Response response, Call<Response>(method, request));
    return std::move(*response.mutable_campaign());
  }

  /// Reads a stream until its end, or until `visit` says false and it is broken off.
  template <typename Message, typename Method, typename Request, typename Visit>
  absl::Status ReadStream(Method method, const Request& request, const Visit& visit) {
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
  std::unique_ptr<v1::OperationService::Stub> operations;
  std::unique_ptr<v1::ItemService::Stub> items;
  std::unique_ptr<v1::AnnotatorService::Stub> annotators;
};

using Stub = v1::CampaignService::Stub;

CampaignCalls::CampaignCalls(std::shared_ptr<const ServerConnection> connection)
    : impl_(new Impl{connection, v1::CampaignService::NewStub(connection->channel()),
                     v1::OperationService::NewStub(connection->channel()),
                     v1::ItemService::NewStub(connection->channel()),
                     v1::AnnotatorService::NewStub(connection->channel())}) {}

CampaignCalls::~CampaignCalls() = default;

absl::StatusOr<v1::Operation> CampaignCalls::Create(const v1::CampaignSpec& spec, const std::string& request_id) {
  v1::CreateCampaignRequest request;
  *request.mutable_spec() = spec;
  request.set_request_id(request_id);
  FULCRUM_ASSIGN_OR_RETURN(auto response, impl_->Call<v1::CreateCampaignResponse>(&Stub::CreateCampaign, request));
  return std::move(*response.mutable_operation());
}

absl::StatusOr<v1::Operation> CampaignCalls::GetOperation(const std::string& operation) {
  v1::GetOperationRequest request;
  request.set_operation(operation);
  FULCRUM_ASSIGN_OR_RETURN(auto response, impl_->CallOn<v1::GetOperationResponse>(
                                              *impl_->operations, &v1::OperationService::Stub::GetOperation, request));
  return std::move(*response.mutable_operation());
}

absl::StatusOr<v1::Operation> CampaignCalls::CancelOperation(const std::string& operation) {
  v1::CancelOperationRequest request;
  request.set_operation(operation);
  FULCRUM_ASSIGN_OR_RETURN(
      auto response, impl_->CallOn<v1::CancelOperationResponse>(*impl_->operations,
                                                                &v1::OperationService::Stub::CancelOperation, request));
  return std::move(*response.mutable_operation());
}

absl::StatusOr<v1::ListOperationsResponse> CampaignCalls::ListOperations() {
  v1::ListOperationsResponse all;
  v1::ListOperationsRequest request;
  do {
    FULCRUM_ASSIGN_OR_RETURN(auto page, impl_->CallOn<v1::ListOperationsResponse>(
                                            *impl_->operations, &v1::OperationService::Stub::ListOperations, request));
    all.mutable_operations()->MergeFrom(page.operations());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return all;
}

absl::StatusOr<v1::Campaign> CampaignCalls::Update(const v1::UpdateCampaignRequest& request) {
  FULCRUM_ASSIGN_OR_RETURN(auto response, impl_->Call<v1::UpdateCampaignResponse>(&Stub::UpdateCampaign, request));
  return std::move(*response.mutable_campaign());
}

absl::StatusOr<v1::Campaign> CampaignCalls::Get(const std::string& name) {
  v1::GetCampaignRequest request;
  request.set_campaign(name);
  FULCRUM_ASSIGN_OR_RETURN(auto response, impl_->Call<v1::GetCampaignResponse>(&Stub::GetCampaign, request));
  return std::move(*response.mutable_campaign());
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

absl::StatusOr<v1::Campaign> CampaignCalls::Start(const std::string& name, const std::string& reason) {
  return impl_->Steer<v1::StartCampaignRequest, v1::StartCampaignResponse>(&Stub::StartCampaign, name, reason);
}

absl::StatusOr<v1::Campaign> CampaignCalls::Pause(const std::string& name, const std::string& reason) {
  return impl_->Steer<v1::PauseCampaignRequest, v1::PauseCampaignResponse>(&Stub::PauseCampaign, name, reason);
}

absl::StatusOr<v1::Campaign> CampaignCalls::Resume(const std::string& name, const std::string& reason) {
  return impl_->Steer<v1::ResumeCampaignRequest, v1::ResumeCampaignResponse>(&Stub::ResumeCampaign, name, reason);
}

absl::StatusOr<v1::Campaign> CampaignCalls::Stop(const std::string& name, const std::string& reason) {
  return impl_->Steer<v1::StopCampaignRequest, v1::StopCampaignResponse>(&Stub::StopCampaign, name, reason);
}

absl::StatusOr<v1::Campaign> CampaignCalls::Retrain(const std::string& name) {
  return impl_->Steer<v1::RetrainCampaignRequest, v1::RetrainCampaignResponse>(&Stub::RetrainCampaign, name);
}

absl::StatusOr<v1::DeleteCampaignResponse> CampaignCalls::Delete(const std::string& name) {
  v1::DeleteCampaignRequest request;
  request.set_campaign(name);
  request.set_request_id(RequestIds().Next());
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
  part.mutable_begin()->set_campaign(name);
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

absl::StatusOr<v1::OfferItemsResponse> CampaignCalls::OfferItems(const v1::OfferItemsRequest& request) {
  grpc::ClientContext context;
  impl_->connection->Prepare(kLongCallTime, context);
  const auto stream = impl_->stub->OfferItems(&context);
  stream->Write(request);
  stream->WritesDone();
  v1::OfferItemsResponse response;
  const bool answered = stream->Read(&response);
  FULCRUM_RETURN_IF_ERROR(FromGrpcStatus(stream->Finish(), impl_->connection->server()));
  if (!answered) return absl::UnavailableError("the server has not answered");
  return response;
}

absl::StatusOr<v1::PredictResponse> CampaignCalls::Predict(const v1::PredictRequest& request) {
  return impl_->Call<v1::PredictResponse>(&Stub::Predict, request);
}

absl::StatusOr<v1::ModelDescription> CampaignCalls::GetModel(
    const v1::GetModelRequest& request, const std::function<absl::Status(const std::string&)>& write) {
  v1::ModelDescription description;
  std::int64_t received = 0;
  absl::Status written;
  FULCRUM_RETURN_IF_ERROR(
      impl_->ReadStream<v1::GetModelResponse>(&Stub::GetModel, request, [&](const v1::GetModelResponse& part) {
        if (part.has_description()) description = part.description();
        received += static_cast<std::int64_t>(part.chunk().size());
        if (part.has_chunk()) written = write(part.chunk());
        return written.ok();
      }));
  FULCRUM_RETURN_IF_ERROR(written);
  if (received == description.bytes()) return description;
  return absl::DataLossError(absl::StrCat("the server sent ", received, " bytes of a model of ", description.bytes()));
}

absl::Status CampaignCalls::ExportLabels(const std::string& name, bool errors,
                                         const std::function<absl::Status(const v1::ExportedLabel&)>& visit) {
  v1::ExportLabelsRequest request;
  request.set_campaign(name);
  request.set_errors(errors);
  absl::Status visited;
  FULCRUM_RETURN_IF_ERROR(impl_->ReadStream<v1::ExportLabelsResponse>(
      &Stub::ExportLabels, request, [&](const v1::ExportLabelsResponse& page) {
        for (const v1::ExportedLabel& label : page.labels()) {
          visited = visit(label);
          if (!visited.ok()) return false;
        }
        return true;
      }));
  return visited;
}

absl::Status CampaignCalls::Watch(const std::string& name, std::int64_t after_sequence,
                                  const std::function<bool(const v1::CampaignEvent&)>& visit) {
  v1::WatchCampaignRequest request;
  request.set_campaign(name);
  request.set_after_sequence(after_sequence);
  return impl_->ReadStream<v1::WatchCampaignResponse>(
      &Stub::WatchCampaign, request,
      [&](const v1::WatchCampaignResponse& response) { return visit(response.event()); });
}

absl::StatusOr<v1::ListItemsResponse> CampaignCalls::ListItems(const v1::ListItemsRequest& request) {
  return impl_->CallOn<v1::ListItemsResponse>(*impl_->items, &v1::ItemService::Stub::ListItems, request);
}

absl::StatusOr<v1::GetItemResponse> CampaignCalls::GetItem(const std::string& name, const std::string& item) {
  v1::GetItemRequest request;
  request.set_campaign(name);
  request.set_item_id(item);
  return impl_->CallOn<v1::GetItemResponse>(*impl_->items, &v1::ItemService::Stub::GetItem, request);
}

absl::StatusOr<v1::Item> CampaignCalls::ResolveItem(const std::string& name, const std::string& item,
                                                    const std::string& value, const std::string& reason) {
  v1::ResolveItemRequest request;
  request.set_campaign(name);
  request.set_item_id(item);
  request.set_value(value);
  request.set_reason(reason);
  request.set_request_id(RequestIds().Next());
  FULCRUM_ASSIGN_OR_RETURN(auto response, impl_->CallOn<v1::ResolveItemResponse>(
                                              *impl_->items, &v1::ItemService::Stub::ResolveItem, request));
  return std::move(*response.mutable_item());
}

absl::StatusOr<v1::Item> CampaignCalls::ReturnItem(const std::string& name, const std::string& item,
                                                   const std::string& reason) {
  v1::ReturnItemRequest request;
  request.set_campaign(name);
  request.set_item_id(item);
  request.set_reason(reason);
  request.set_request_id(RequestIds().Next());
  FULCRUM_ASSIGN_OR_RETURN(
      auto response, impl_->CallOn<v1::ReturnItemResponse>(*impl_->items, &v1::ItemService::Stub::ReturnItem, request));
  return std::move(*response.mutable_item());
}

absl::StatusOr<v1::ListAnnotatorsResponse> CampaignCalls::ListAnnotators(const std::string& name) {
  v1::ListAnnotatorsRequest request;
  request.set_campaign(name);
  return impl_->CallOn<v1::ListAnnotatorsResponse>(*impl_->annotators, &v1::AnnotatorService::Stub::ListAnnotators,
                                                   request);
}

absl::Status CampaignCalls::PauseAnnotator(const std::string& name, const std::string& annotator,
                                           const std::string& reason) {
  v1::PauseAnnotatorRequest request;
  request.set_campaign(name);
  request.set_annotator(annotator);
  request.set_reason(reason);
  request.set_request_id(RequestIds().Next());
  return impl_
      ->CallOn<v1::PauseAnnotatorResponse>(*impl_->annotators, &v1::AnnotatorService::Stub::PauseAnnotator, request)
      .status();
}

absl::Status CampaignCalls::ResumeAnnotator(const std::string& name, const std::string& annotator,
                                            const std::string& reason) {
  v1::ResumeAnnotatorRequest request;
  request.set_campaign(name);
  request.set_annotator(annotator);
  request.set_reason(reason);
  request.set_request_id(RequestIds().Next());
  return impl_
      ->CallOn<v1::ResumeAnnotatorResponse>(*impl_->annotators, &v1::AnnotatorService::Stub::ResumeAnnotator, request)
      .status();
}

absl::StatusOr<v1::ListLabelErrorsResponse> CampaignCalls::ListLabelErrors(const std::string& name, int most) {
  v1::ListLabelErrorsRequest request;
  request.set_campaign(name);
  request.set_page_size(most);
  return impl_->CallOn<v1::ListLabelErrorsResponse>(*impl_->annotators, &v1::AnnotatorService::Stub::ListLabelErrors,
                                                    request);
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
