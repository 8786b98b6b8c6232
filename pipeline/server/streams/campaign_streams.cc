#include "pipeline/server/streams/campaign_streams.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <utility>

#include "pipeline/campaign/stored_text.h"
#include "pipeline/server/labeling_service.h"
#include "pipeline/text/status.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {

void AppendStream::Release() {
  upload_.reset();
  campaign_.reset();
}

void AppendStream::Note(const absl::Status& status) {
  if (!operation_.empty()) {
    operations_.EndAppend(operation_, status.ok() ? absl::StatusOr<std::int64_t>(response_->added()) : status);
  }
  on_end_(begin_, status);
}

absl::Status AppendStream::Take(const v1::AppendItemsRequest& message) {
  if (upload_ == nullptr && message.has_begin()) return BeginUpload(message.begin());
  if (upload_ == nullptr) return absl::InvalidArgumentError("the first message must be 'begin'");
  if (!complete_ && message.has_chunk()) return upload_->Add(message.chunk());
  if (complete_ || !message.end()) {
    return absl::InvalidArgumentError("after 'begin' come messages with a 'chunk', and then one 'end'");
  }
  complete_ = true;
  return absl::OkStatus();
}

absl::Status AppendStream::BeginUpload(const v1::AppendItemsRequest::Begin& begin) {
  FULCRUM_RETURN_IF_ERROR(CheckRequest(begin.request_id(), 0));
  begin_ = begin;
  FULCRUM_ASSIGN_OR_RETURN(campaign_, find_(begin.campaign()));
  FULCRUM_ASSIGN_OR_RETURN(upload_, campaign_->BeginUpload());
  operation_ = operations_.BeginAppend(begin.campaign(), by_, [weak = weak_from_this()] {
    if (const auto stream = std::static_pointer_cast<AppendStream>(weak.lock())) {
      stream->Stop(absl::CancelledError("the append was cancelled as an operation; nothing was appended"));
    }
  });
  return absl::OkStatus();
}

absl::Status AppendStream::Complete() {
  // A client that has gone looks like one that has said all: only 'end' tells them apart.
  if (!complete_) return absl::InvalidArgumentError("the stream ended before 'end'; nothing was appended");
  FULCRUM_RETURN_IF_ERROR(upload_->Finish());
  const auto note_rows = [this](std::size_t rows) { operations_.NoteRows(operation_, rows); };
  FULCRUM_ASSIGN_OR_RETURN(Appended appended,
                           campaign_->AppendItems({.by = by_,
                                                   .request_id = begin_.request_id(),
                                                   .file = upload_->file(),
                                                   .checksum = upload_->checksum(),
                                                   .control = {.stop = stop_token(), .on_progress = note_rows}}));
  *response_ = std::move(appended.response);
  return absl::OkStatus();
}

namespace {

constexpr std::size_t kLabelsAPage = 256;
constexpr std::size_t kBytesAChunk = std::size_t{1} << 20;

v1::LabelKind KindOf(storage::EventKind kind) {
  switch (kind) {
    case storage::EventKind::kLabelSubmitted:
      return v1::LABEL_KIND_LABEL;
    case storage::EventKind::kLabelChanged:
      return v1::LABEL_KIND_CHANGE;
    case storage::EventKind::kLabelWithdrawn:
      return v1::LABEL_KIND_WITHDRAWAL;
    case storage::EventKind::kLabelImported:
      return v1::LABEL_KIND_IMPORT;
    case storage::EventKind::kItemResolved:
      return v1::LABEL_KIND_RESOLUTION;
    default:
      return v1::LABEL_KIND_UNSPECIFIED;
  }
}

v1::ItemState StateOf(const std::string& status) {
  if (status == storage::ItemStatusName(storage::ItemStatus::kLabeled)) return v1::ITEM_STATE_LABELED;
  if (status == storage::ItemStatusName(storage::ItemStatus::kDisputed)) return v1::ITEM_STATE_DISPUTED;
  if (status == storage::ItemStatusName(storage::ItemStatus::kSetAside)) return v1::ITEM_STATE_SET_ASIDE;
  if (status == storage::ItemStatusName(storage::ItemStatus::kOffered)) return v1::ITEM_STATE_OPEN;
  return v1::ITEM_STATE_UNLABELED;
}

void Describe(const storage::ExportedLabel& row, v1::ExportedLabel& label) {
  const storage::EventRow& event = row.event;
  label.set_sequence(event.sequence);
  label.set_kind(KindOf(event.kind));
  label.set_item_id(event.item);
  label.set_value(event.value);
  label.set_annotator(event.annotator);
  *label.mutable_time() = google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(storage::ToMicros(event.at));
  label.set_lease_id(event.lease);
  label.set_epoch(event.epoch);
  label.set_slot(event.slot);
  label.set_round(event.round);
  label.set_cost(event.cost);
  label.set_late(row.late);
  label.set_request_id(event.request_id);
  label.set_counts(row.counts);
  label.set_item_state(StateOf(row.item_status));
  label.set_decision(row.decision);
  if (row.agreement) label.set_agreement(*row.agreement);
  if (row.confidence) label.set_confidence(*row.confidence);
  if (row.annotator_accuracy) label.set_annotator_accuracy(*row.annotator_accuracy);
  label.set_suggested(row.suggested);
}

}  // namespace

absl::StatusOr<std::vector<v1::ExportLabelsResponse>> LabelPages::Next() {
  if (reader_ == nullptr) {
    std::optional<storage::LikelyErrors> errors;
    if (find_errors_ != nullptr) {
      FULCRUM_ASSIGN_OR_RETURN(errors, find_errors_());
    }
    FULCRUM_ASSIGN_OR_RETURN(reader_, storage::CampaignReader::Open(folder_));
    pager_.emplace(*reader_, std::move(errors));
  }
  FULCRUM_ASSIGN_OR_RETURN(const std::vector<storage::ExportedLabel> rows, pager_->Next(kLabelsAPage));
  std::vector<v1::ExportLabelsResponse> page;
  if (rows.empty()) return page;
  v1::ExportLabelsResponse& response = page.emplace_back();
  for (const storage::ExportedLabel& row : rows) Describe(row, *response.add_labels());
  return page;
}

absl::StatusOr<v1::GetModelResponse> ModelPages::Describe() {
  FULCRUM_ASSIGN_OR_RETURN(const storage::StoredModel stored, campaign_->models().Find(round_));
  v1::GetModelResponse first;
  v1::ModelDescription& description = *first.mutable_description();
  if (ReadsByRange(format_)) {
    FULCRUM_ASSIGN_OR_RETURN(size_, campaign_->models().OpenFile(stored, file_));
    description.set_checksum(stored.checksum);
  } else {
    FULCRUM_ASSIGN_OR_RETURN(const auto model, campaign_->models().Load(stored.round));
    FULCRUM_ASSIGN_OR_RETURN(bytes_, ExportModel(*campaign_->plan(), *campaign_->pool(), *model, format_));
    size_ = bytes_.size();
    Checksum checksum;
    checksum.Add(bytes_);
    description.set_checksum(checksum.ToText());
  }
  description.set_round(stored.round);
  description.set_trained_on(stored.trained_on);
  description.set_bytes(static_cast<std::int64_t>(size_));
  if (!stored.record.empty()) FULCRUM_RETURN_IF_ERROR(ParseStoredText(stored.record, *description.mutable_trained()));
  return first;
}

absl::StatusOr<std::string> ModelPages::NextChunk() {
  if (!ReadsByRange(format_)) return bytes_.substr(sent_, kBytesAChunk);
  std::string chunk(std::min(kBytesAChunk, size_ - sent_), '\0');
  if (file_.read(chunk.data(), static_cast<std::streamsize>(chunk.size()))) return chunk;
  return absl::UnavailableError("the model's file cannot be read; try again");
}

absl::StatusOr<std::vector<v1::GetModelResponse>> ModelPages::Next() {
  std::vector<v1::GetModelResponse> page;
  if (campaign_ != nullptr) {
    FULCRUM_ASSIGN_OR_RETURN(v1::GetModelResponse description, Describe());
    campaign_.reset();
    page.push_back(std::move(description));
  } else if (sent_ < size_) {
    FULCRUM_ASSIGN_OR_RETURN(*page.emplace_back().mutable_chunk(), NextChunk());
    sent_ += page.front().chunk().size();
  }
  return page;
}

absl::StatusOr<std::vector<v1::GetPayloadResponse>> PayloadPages::Next() {
  std::vector<v1::GetPayloadResponse> page;
  if (size_ && sent_ == *size_) return page;
  FULCRUM_ASSIGN_OR_RETURN(const std::shared_ptr<Campaign> campaign, find_());
  v1::GetPayloadResponse& response = page.emplace_back();
  if (!size_) {
    size_ = campaign->PayloadBytes(item_);
    response.set_payload_bytes(static_cast<std::int64_t>(*size_));
  }
  response.set_chunk(campaign->PayloadPart(item_, sent_, kBytesAChunk));
  if (response.chunk().size() != std::min(kBytesAChunk, *size_ - sent_)) {
    return absl::UnavailableError("the payload cannot be read; try again");
  }
  sent_ += response.chunk().size();
  return page;
}

}  // namespace fulcrum::pipeline
