#include "storage/log/event.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace fulcrum::storage {
namespace {

constexpr char kLate[] = "late";
constexpr char kComplete[] = "complete";

struct KindName {
  EventKind kind;
  const char* name;
};

// In the order of EventBody.
constexpr std::array kKinds = {
    KindName{EventKind::kStoreOpened, "store_opened"},
    KindName{EventKind::kSettingsChanged, "settings_changed"},
    KindName{EventKind::kLifeChanged, "life_changed"},
    KindName{EventKind::kBatchCommitted, "batch_committed"},
    KindName{EventKind::kItemBatched, "item_batched"},
    KindName{EventKind::kRoundClosed, "round_closed"},
    KindName{EventKind::kModelStored, "model_stored"},
    KindName{EventKind::kRowsAppended, "rows_appended"},
    KindName{EventKind::kRetrainRequested, "retrain_requested"},
    KindName{EventKind::kLeaseGranted, "lease_granted"},
    KindName{EventKind::kLeaseRenewed, "lease_renewed"},
    KindName{EventKind::kLeaseReleased, "lease_released"},
    KindName{EventKind::kLeaseExpired, "lease_expired"},
    KindName{EventKind::kLabelSubmitted, "label_submitted"},
    KindName{EventKind::kLabelChanged, "label_changed"},
    KindName{EventKind::kLabelWithdrawn, "label_withdrawn"},
    KindName{EventKind::kLabelImported, "label_imported"},
    KindName{EventKind::kTaskSkipped, "task_skipped"},
    KindName{EventKind::kItemSetAside, "item_set_aside"},
    KindName{EventKind::kItemReturned, "item_returned"},
    KindName{EventKind::kItemDisputed, "item_disputed"},
    KindName{EventKind::kItemResolved, "item_resolved"},
    KindName{EventKind::kModelTaskOpened, "model_task_opened"},
    KindName{EventKind::kModelLeaseGranted, "model_lease_granted"},
    KindName{EventKind::kModelLeaseRenewed, "model_lease_renewed"},
    KindName{EventKind::kModelLeaseEnded, "model_lease_ended"},
    KindName{EventKind::kPredictionsStored, "predictions_stored"},
    KindName{EventKind::kModelTaskClosed, "model_task_closed"},
    KindName{EventKind::kVotesAccepted, "votes_accepted"},
    KindName{EventKind::kAnnotatorsEstimated, "annotators_estimated"},
    KindName{EventKind::kAnnotatorPaused, "annotator_paused"},
    KindName{EventKind::kAnnotatorResumed, "annotator_resumed"},
    KindName{EventKind::kRowsOffered, "rows_offered"},
    KindName{EventKind::kItemTaken, "item_taken"},
    KindName{EventKind::kOfferedRowsStored, "offered_rows_stored"},
    KindName{EventKind::kClassifierHeard, "classifier_heard"},
};
static_assert(kKinds.size() == std::variant_size_v<EventBody>);

/// Puts each field of a body into its column.
struct Encoder {
  EventRow& row;

  void operator()(StoreOpened& body) const { row.number = body.gap.count(); }
  void operator()(SettingsChanged& body) const { row.detail = std::move(body.settings); }
  void operator()(LifeChanged& body) const {
    row.value = std::move(body.life);
    row.reason = std::move(body.reason);
  }
  void operator()(BatchCommitted& body) const {
    row.round = body.round;
    row.number = body.based_on;
    row.slot = body.carried;
    row.detail = std::move(body.files);
  }
  void operator()(ItemBatched& body) const {
    row.item = std::move(body.item);
    row.round = body.round;
    row.number = body.rank;
    row.cost = body.cost;
  }
  void operator()(RoundClosed& body) const {
    row.round = body.round;
    row.reason = std::move(body.reason);
  }
  void operator()(ModelStored& body) const {
    row.round = body.round;
    row.number = body.trained_on;
    row.value = std::move(body.file);
    row.detail = std::move(body.checksum);
    row.reason = std::move(body.record);
  }
  void operator()(RowsAppended& body) const {
    row.number = body.rows;
    row.value = std::move(body.folder);
    row.detail = std::move(body.answer);
  }
  void operator()(RetrainRequested&) const {}
  void operator()(LeaseGranted& body) const {
    row.item = std::move(body.item);
    row.slot = body.slot;
    row.epoch = body.epoch;
    row.round = body.round;
    row.number = ToMicros(body.expires_at);
  }
  void operator()(LeaseRenewed& body) const {
    row.lease = body.lease;
    row.epoch = body.epoch;
    row.number = ToMicros(body.expires_at);
  }
  void operator()(LeaseReleased& body) const {
    row.lease = body.lease;
    row.epoch = body.epoch;
  }
  void operator()(LeaseExpired& body) const {
    row.lease = body.lease;
    row.epoch = body.epoch;
  }
  void operator()(LabelSubmitted& body) const {
    row.item = std::move(body.item);
    row.slot = body.slot;
    row.lease = body.lease;
    row.epoch = body.epoch;
    row.round = body.round;
    row.value = std::move(body.value);
    row.cost = body.cost;
    if (body.late) row.reason = kLate;
  }
  void operator()(LabelChanged& body) const {
    row.item = std::move(body.item);
    row.value = std::move(body.value);
  }
  void operator()(LabelWithdrawn& body) const { row.item = std::move(body.item); }
  void operator()(LabelImported& body) const {
    row.item = std::move(body.item);
    row.value = std::move(body.value);
    row.cost = body.cost;
  }
  void operator()(TaskSkipped& body) const {
    row.item = std::move(body.item);
    row.slot = body.slot;
    row.lease = body.lease;
    row.epoch = body.epoch;
    row.round = body.round;
    row.reason = std::move(body.reason);
  }
  void operator()(ItemSetAside& body) const {
    row.item = std::move(body.item);
    row.reason = std::move(body.reason);
  }
  void operator()(ItemReturned& body) const {
    row.item = std::move(body.item);
    row.reason = std::move(body.reason);
  }
  void operator()(ItemDisputed& body) const {
    row.item = std::move(body.item);
    row.reason = std::move(body.reason);
  }
  void operator()(ItemResolved& body) const {
    row.item = std::move(body.item);
    row.value = std::move(body.value);
    row.reason = std::move(body.reason);
  }
  void operator()(ModelTaskOpened& body) const {
    row.round = body.round;
    row.number = body.rows;
  }
  void operator()(ModelLeaseGranted& body) const {
    row.round = body.round;
    row.epoch = body.epoch;
    row.number = ToMicros(body.expires_at);
  }
  void operator()(ModelLeaseRenewed& body) const {
    row.lease = body.lease;
    row.epoch = body.epoch;
    row.number = ToMicros(body.expires_at);
  }
  void operator()(ModelLeaseEnded& body) const {
    row.lease = body.lease;
    row.epoch = body.epoch;
    row.reason = std::move(body.reason);
  }
  void operator()(PredictionsStored& body) const {
    row.round = body.round;
    row.lease = body.lease;
    row.epoch = body.epoch;
    row.value = std::move(body.file);
    row.detail = std::move(body.checksum);
    if (!body.features_file.empty()) absl::StrAppend(&row.detail, " ", body.features_file, " ", body.features_checksum);
    if (body.late) row.reason = kLate;
  }
  void operator()(ModelTaskClosed& body) const {
    row.round = body.round;
    row.reason = std::move(body.reason);
  }
  void operator()(VotesAccepted& body) const {
    row.item = std::move(body.item);
    row.reason = std::move(body.reason);
  }
  void operator()(AnnotatorsEstimated& body) const {
    row.number = body.votes;
    row.detail = std::move(body.crowd);
  }
  void operator()(AnnotatorPaused& body) const {
    row.value = std::move(body.who);
    row.reason = std::move(body.reason);
  }
  void operator()(AnnotatorResumed& body) const {
    row.value = std::move(body.who);
    row.reason = std::move(body.reason);
  }
  void operator()(RowsOffered& body) const {
    row.number = body.rows;
    row.slot = body.taken;
    row.lease = body.kept;
    row.epoch = body.alarms;
    row.round = body.model;
    if (body.complete) row.reason = kComplete;
    row.detail = std::move(body.record);
  }
  void operator()(ItemTaken& body) const {
    row.item = std::move(body.item);
    row.cost = body.cost;
  }
  void operator()(OfferedRowsStored& body) const {
    row.number = body.rows;
    row.value = std::move(body.folder);
    row.lease = body.through;
  }
  void operator()(ClassifierHeard& body) const {
    row.round = body.round;
    row.detail = std::move(body.voices);
  }
};

absl::StatusOr<EventBody> DecodeBody(EventRow& row) {
  switch (row.kind) {
    case EventKind::kStoreOpened:
      return StoreOpened{std::chrono::microseconds(row.number)};
    case EventKind::kSettingsChanged:
      return SettingsChanged{std::move(row.detail)};
    case EventKind::kLifeChanged:
      return LifeChanged{std::move(row.value), std::move(row.reason)};
    case EventKind::kBatchCommitted:
      return BatchCommitted{row.round, row.number, std::move(row.detail), row.slot};
    case EventKind::kItemBatched:
      return ItemBatched{std::move(row.item), row.round, row.number, row.cost};
    case EventKind::kRoundClosed:
      return RoundClosed{row.round, std::move(row.reason)};
    case EventKind::kModelStored:
      return ModelStored{row.round, row.number, std::move(row.value), std::move(row.detail), std::move(row.reason)};
    case EventKind::kRowsAppended:
      return RowsAppended{row.number, std::move(row.value), std::move(row.detail)};
    case EventKind::kRetrainRequested:
      return RetrainRequested{};
    case EventKind::kLeaseGranted:
      return LeaseGranted{std::move(row.item), row.slot, row.epoch, row.round, FromMicros(row.number)};
    case EventKind::kLeaseRenewed:
      return LeaseRenewed{row.lease, row.epoch, FromMicros(row.number)};
    case EventKind::kLeaseReleased:
      return LeaseReleased{row.lease, row.epoch};
    case EventKind::kLeaseExpired:
      return LeaseExpired{row.lease, row.epoch};
    case EventKind::kLabelSubmitted:
      return LabelSubmitted{std::move(row.item),  row.slot, row.lease,          row.epoch, row.round,
                            std::move(row.value), row.cost, row.reason == kLate};
    case EventKind::kLabelChanged:
      return LabelChanged{std::move(row.item), std::move(row.value)};
    case EventKind::kLabelWithdrawn:
      return LabelWithdrawn{std::move(row.item)};
    case EventKind::kLabelImported:
      return LabelImported{std::move(row.item), std::move(row.value), row.cost};
    case EventKind::kTaskSkipped:
      return TaskSkipped{std::move(row.item), row.slot, row.lease, row.epoch, row.round, std::move(row.reason)};
    case EventKind::kItemSetAside:
      return ItemSetAside{std::move(row.item), std::move(row.reason)};
    case EventKind::kItemReturned:
      return ItemReturned{std::move(row.item), std::move(row.reason)};
    case EventKind::kItemDisputed:
      return ItemDisputed{std::move(row.item), std::move(row.reason)};
    case EventKind::kItemResolved:
      return ItemResolved{std::move(row.item), std::move(row.value), std::move(row.reason)};
    case EventKind::kModelTaskOpened:
      return ModelTaskOpened{row.round, row.number};
    case EventKind::kModelLeaseGranted:
      return ModelLeaseGranted{row.round, row.epoch, FromMicros(row.number)};
    case EventKind::kModelLeaseRenewed:
      return ModelLeaseRenewed{row.lease, row.epoch, FromMicros(row.number)};
    case EventKind::kModelLeaseEnded:
      return ModelLeaseEnded{row.lease, row.epoch, std::move(row.reason)};
    case EventKind::kPredictionsStored: {
      // The checksum, and the name and the checksum of the file with features, if there is one.
      std::vector<std::string> files = absl::StrSplit(row.detail, ' ');
      files.resize(3);
      return PredictionsStored{.round = row.round,
                               .lease = row.lease,
                               .epoch = row.epoch,
                               .file = std::move(row.value),
                               .checksum = std::move(files[0]),
                               .late = row.reason == kLate,
                               .features_file = std::move(files[1]),
                               .features_checksum = std::move(files[2])};
    }
    case EventKind::kModelTaskClosed:
      return ModelTaskClosed{row.round, std::move(row.reason)};
    case EventKind::kVotesAccepted:
      return VotesAccepted{std::move(row.item), std::move(row.reason)};
    case EventKind::kAnnotatorsEstimated:
      return AnnotatorsEstimated{row.number, std::move(row.detail)};
    case EventKind::kAnnotatorPaused:
      return AnnotatorPaused{std::move(row.value), std::move(row.reason)};
    case EventKind::kAnnotatorResumed:
      return AnnotatorResumed{std::move(row.value), std::move(row.reason)};
    case EventKind::kRowsOffered:
      return RowsOffered{.rows = row.number,
                         .taken = row.slot,
                         .kept = row.lease,
                         .alarms = row.epoch,
                         .model = row.round,
                         .complete = row.reason == kComplete,
                         .record = std::move(row.detail)};
    case EventKind::kItemTaken:
      return ItemTaken{std::move(row.item), row.cost};
    case EventKind::kOfferedRowsStored:
      return OfferedRowsStored{row.number, std::move(row.value), row.lease};
    case EventKind::kClassifierHeard:
      return ClassifierHeard{row.round, std::move(row.detail)};
  }
  return absl::DataLossError(absl::StrCat("event ", row.sequence, " of the log is of an unknown kind, ",
                                          static_cast<std::int64_t>(row.kind),
                                          "; restore a backup, or use the program that wrote it"));
}

}  // namespace

const char* EventKindName(EventKind kind) {
  const auto* const found = std::find_if(kKinds.begin(), kKinds.end(), [&](const auto& k) { return k.kind == kind; });
  return found == kKinds.end() ? "unknown" : found->name;
}

EventKind KindOf(const EventBody& body) {
  return kKinds[body.index()].kind;
}

EventRow EncodeEvent(Event event) {
  EventRow row{.sequence = event.sequence,
               .kind = KindOf(event.body),
               .at = event.at,
               .annotator = std::move(event.annotator),
               .request_id = std::move(event.request_id),
               .fingerprint = event.fingerprint};
  std::visit(Encoder{row}, event.body);
  return row;
}

absl::StatusOr<Event> DecodeEvent(EventRow row) {
  absl::StatusOr<EventBody> body = DecodeBody(row);
  if (!body.ok()) return body.status();
  return Event{.sequence = row.sequence,
               .at = row.at,
               .annotator = std::move(row.annotator),
               .request_id = std::move(row.request_id),
               .fingerprint = row.fingerprint,
               .body = *std::move(body)};
}

}  // namespace fulcrum::storage
