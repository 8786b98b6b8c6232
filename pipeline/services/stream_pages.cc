#include "pipeline/services/stream_pages.h"

#include <google/protobuf/util/time_util.h>

#include <utility>

#include "pipeline/campaign/stored_text.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
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

v1::ExportedLabel ToExported(const storage::Event& event) {
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
    if (KindName(event.kind) != nullptr) page.push_back(ToExported(event));
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
