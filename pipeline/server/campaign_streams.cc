#include "pipeline/server/campaign_streams.h"

#include <google/protobuf/util/time_util.h>

#include <utility>

#include "pipeline/campaign/stored_text.h"
#include "pipeline/server/label_requests.h"
#include "pipeline/text/status.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {

AppendStream* AppendStream::Begin(Executor& executor, FindCampaign find, std::string by,
                                  v1::AppendItemsResponse* response) {
  auto* stream = new AppendStream(executor, std::move(find), std::move(by), response);
  stream->StartRead(&stream->incoming_);
  return stream;
}

AppendStream* AppendStream::Refuse(Executor& executor, const absl::Status& status) {
  auto* stream = new AppendStream(executor, {}, "", nullptr);
  stream->End(status);
  return stream;
}

void AppendStream::End(const absl::Status& status) {
  // Before the answer: whoever gets it may append again at once.
  upload_.reset();
  campaign_.reset();
  Finish(ToGrpcStatus(status));
}

void AppendStream::OnReadDone(bool ok) {
  const bool taken = executor_.Submit([this, ok] {
    if (cancelled_) return End(absl::CancelledError("the client has gone"));
    if (!ok) return End(TakeIn());
    if (const absl::Status status = TakePart(); !status.ok()) return End(status);
    StartRead(&incoming_);
  });
  if (!taken) End(Executor::Busy());
}

absl::Status AppendStream::TakePart() {
  if (upload_ == nullptr && incoming_.has_begin()) return BeginUpload(incoming_.begin());
  if (upload_ == nullptr) return absl::InvalidArgumentError("the first message must be 'begin'");
  if (!complete_ && incoming_.has_chunk()) return upload_->Add(incoming_.chunk());
  if (complete_ || !incoming_.end()) {
    return absl::InvalidArgumentError("after 'begin' come messages with a 'chunk', and then one 'end'");
  }
  complete_ = true;
  return absl::OkStatus();
}

absl::Status AppendStream::BeginUpload(const v1::AppendItemsRequest::Begin& begin) {
  FULCRUM_RETURN_IF_ERROR(CheckRequest(begin.request_id(), 0));
  FULCRUM_ASSIGN_OR_RETURN(campaign_, find_(begin.name()));
  request_id_ = begin.request_id();
  FULCRUM_ASSIGN_OR_RETURN(upload_, campaign_->BeginUpload());
  return absl::OkStatus();
}

absl::Status AppendStream::TakeIn() {
  // A client that has gone looks like one that has said all: only 'end' tells them apart.
  if (!complete_) return absl::InvalidArgumentError("the stream ended before 'end'; nothing was appended");
  FULCRUM_RETURN_IF_ERROR(upload_->Finish());
  FULCRUM_ASSIGN_OR_RETURN(
      Appended appended,
      campaign_->AppendItems(
          {.by = by_, .request_id = request_id_, .file = upload_->file(), .checksum = upload_->checksum()}));
  *response_ = std::move(appended.response);
  return absl::OkStatus();
}

namespace {

constexpr std::size_t kLabelsAPage = 256;
constexpr std::size_t kBytesAChunk = std::size_t{1} << 20;

const char* KindName(storage::EventKind kind) {
  switch (kind) {
    case storage::EventKind::kLabelSubmitted:
      return "label";
    case storage::EventKind::kLabelChanged:
      return "change";
    case storage::EventKind::kLabelWithdrawn:
      return "withdrawal";
    case storage::EventKind::kLabelImported:
      return "import";
    default:
      return nullptr;
  }
}

v1::ExportedLabel ToExported(const storage::EventRow& event) {
  v1::ExportedLabel label;
  label.set_sequence(event.sequence);
  label.set_item_id(event.item);
  label.set_value(event.value);
  label.set_annotator(event.annotator);
  *label.mutable_time() = google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(storage::ToMicros(event.at));
  label.set_round(event.round);
  label.set_lease_id(event.lease);
  label.set_cost(event.cost);
  label.set_kind(KindName(event.kind));
  return label;
}

}  // namespace

absl::StatusOr<std::vector<v1::ExportedLabel>> LabelPages::Next() {
  if (reader_ == nullptr) {
    FULCRUM_ASSIGN_OR_RETURN(reader_, storage::CampaignReader::Open(folder_));
  }
  std::vector<v1::ExportedLabel> page;
  const absl::Status full = absl::OutOfRangeError("the page is full");
  const absl::Status status = reader_->VisitEvents(next_, storage::kEndOfLog, [&](const storage::Event& event) {
    if (page.size() == kLabelsAPage) return full;
    next_ = event.sequence + 1;
    if (KindName(storage::KindOf(event.body)) != nullptr) {
      page.push_back(ToExported(storage::EncodeEvent(event)));
    }
    return absl::OkStatus();
  });
  if (!status.ok() && status != full) return status;
  return page;
}

absl::StatusOr<v1::ModelChunk> ModelPages::Describe() {
  FULCRUM_ASSIGN_OR_RETURN(const storage::StoredModel stored, campaign_->models().Find(round_));
  FULCRUM_ASSIGN_OR_RETURN(bytes_, campaign_->models().ReadBytes(stored));
  v1::ModelChunk first;
  v1::ModelDescription& description = *first.mutable_description();
  description.set_round(stored.round);
  description.set_trained_on(stored.trained_on);
  description.set_bytes(static_cast<std::int64_t>(bytes_.size()));
  description.set_checksum(stored.checksum);
  if (!stored.record.empty()) FULCRUM_RETURN_IF_ERROR(ParseStoredText(stored.record, *description.mutable_trained()));
  return first;
}

absl::StatusOr<std::vector<v1::ModelChunk>> ModelPages::Next() {
  std::vector<v1::ModelChunk> page;
  if (campaign_ != nullptr) {
    FULCRUM_ASSIGN_OR_RETURN(v1::ModelChunk description, Describe());
    campaign_.reset();
    page.push_back(std::move(description));
  } else if (sent_ < bytes_.size()) {
    page.emplace_back().set_chunk(bytes_.substr(sent_, kBytesAChunk));
    sent_ += page.front().chunk().size();
  }
  return page;
}

}  // namespace fulcrum::pipeline
