// The calls of fulcrum.v1.CampaignService, OperationService, ItemService and AnnotatorService, with this project's
// status. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace fulcrum::v1 {
class AppendItemsResponse;
class Campaign;
class CampaignEvent;
class CampaignSpec;
class DeleteCampaignResponse;
class ExportedLabel;
class GetItemResponse;
class GetModelRequest;
class ImportLabelsRequest;
class ImportLabelsResponse;
class Item;
class ListAnnotatorsResponse;
class ListCampaignsResponse;
class ListItemsRequest;
class ListItemsResponse;
class ListLabelErrorsResponse;
class ListOperationsResponse;
class ModelDescription;
class OfferItemsRequest;
class OfferItemsResponse;
class Operation;
class PredictRequest;
class PredictResponse;
class UpdateCampaignRequest;
}  // namespace fulcrum::v1

namespace fulcrum::pipeline {

class ServerConnection;

class CampaignCalls {
 public:
  explicit CampaignCalls(std::shared_ptr<const ServerConnection> connection);
  ~CampaignCalls();

  /// Starts to create a campaign; the request id makes a repeat safe.
  absl::StatusOr<v1::Operation> Create(const v1::CampaignSpec& spec, const std::string& request_id);
  absl::StatusOr<v1::Operation> GetOperation(const std::string& operation);
  absl::StatusOr<v1::Operation> CancelOperation(const std::string& operation);
  /// All pages in one.
  absl::StatusOr<v1::ListOperationsResponse> ListOperations();
  /// Changes a campaign's specification.
  absl::StatusOr<v1::Campaign> Update(const v1::UpdateCampaignRequest& request);
  absl::StatusOr<v1::Campaign> Get(const std::string& name);
  /// All pages in one.
  absl::StatusOr<v1::ListCampaignsResponse> ListAll();
  /// `reason` is stored with the change; it may be empty.
  absl::StatusOr<v1::Campaign> Start(const std::string& name, const std::string& reason);
  absl::StatusOr<v1::Campaign> Pause(const std::string& name, const std::string& reason);
  absl::StatusOr<v1::Campaign> Resume(const std::string& name, const std::string& reason);
  absl::StatusOr<v1::Campaign> Stop(const std::string& name, const std::string& reason);
  absl::StatusOr<v1::Campaign> Retrain(const std::string& name);
  absl::StatusOr<v1::DeleteCampaignResponse> Delete(const std::string& name);
  absl::StatusOr<v1::ImportLabelsResponse> ImportLabels(const v1::ImportLabelsRequest& request);

  /// Sends an Arrow IPC file, in chunks.
  absl::StatusOr<v1::AppendItemsResponse> AppendItems(const std::string& name, const std::string& request_id,
                                                      const std::string& file);
  /// Offers the rows of one message.
  absl::StatusOr<v1::OfferItemsResponse> OfferItems(const v1::OfferItemsRequest& request);
  absl::StatusOr<v1::PredictResponse> Predict(const v1::PredictRequest& request);
  /// Calls `write` with the pieces of a model's file; round 0 is the latest's. DataLoss if some are missing.
  absl::StatusOr<v1::ModelDescription> GetModel(const v1::GetModelRequest& request,
                                                const std::function<absl::Status(const std::string&)>& write);

  /// Calls `visit` for every label until the stream ends; an error of `visit` ends it too and is given back. `errors`:
  /// likely label errors are looked for.
  absl::Status ExportLabels(const std::string& name, bool errors,
                            const std::function<absl::Status(const v1::ExportedLabel&)>& visit);
  /// Calls `visit` for every event after a sequence number until the stream ends or `visit` says false.
  absl::Status Watch(const std::string& name, std::int64_t after_sequence,
                     const std::function<bool(const v1::CampaignEvent&)>& visit);

  absl::StatusOr<v1::ListItemsResponse> ListItems(const v1::ListItemsRequest& request);
  absl::StatusOr<v1::GetItemResponse> GetItem(const std::string& name, const std::string& item);
  /// Decides an example.
  absl::StatusOr<v1::Item> ResolveItem(const std::string& name, const std::string& item, const std::string& value,
                                       const std::string& reason);
  /// Lets an example be offered again.
  absl::StatusOr<v1::Item> ReturnItem(const std::string& name, const std::string& item, const std::string& reason);

  absl::StatusOr<v1::ListAnnotatorsResponse> ListAnnotators(const std::string& name);
  absl::Status PauseAnnotator(const std::string& name, const std::string& annotator, const std::string& reason);
  absl::Status ResumeAnnotator(const std::string& name, const std::string& annotator, const std::string& reason);
  absl::StatusOr<v1::ListLabelErrorsResponse> ListLabelErrors(const std::string& name, int most);

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

// Request ids that no other worker, and no other start of this one, ever makes.
//
// Not thread-safe.

class RequestIds {
 public:
  /// With a prefix of 96 random bits from the system.
  RequestIds();

  /// "2f0c...-1", "2f0c...-2", ...
  std::string Next();

 private:
  std::string prefix_;
  std::uint64_t count_ = 0;
};

}  // namespace fulcrum::pipeline
