#include "storage/log/event_log.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"

namespace fulcrum::storage {
namespace {

struct KindName {
  EventKind kind;
  const char* name;
};

constexpr std::array kKinds = {
    KindName{EventKind::kStoreOpened, "store_opened"},     KindName{EventKind::kSettingsChanged, "settings_changed"},
    KindName{EventKind::kLifeChanged, "life_changed"},     KindName{EventKind::kBatchCommitted, "batch_committed"},
    KindName{EventKind::kItemBatched, "item_batched"},     KindName{EventKind::kRoundClosed, "round_closed"},
    KindName{EventKind::kModelStored, "model_stored"},     KindName{EventKind::kLeaseGranted, "lease_granted"},
    KindName{EventKind::kLeaseRenewed, "lease_renewed"},   KindName{EventKind::kLeaseReleased, "lease_released"},
    KindName{EventKind::kLeaseExpired, "lease_expired"},   KindName{EventKind::kLabelSubmitted, "label_submitted"},
    KindName{EventKind::kLabelChanged, "label_changed"},   KindName{EventKind::kLabelWithdrawn, "label_withdrawn"},
    KindName{EventKind::kLabelImported, "label_imported"}, KindName{EventKind::kTaskSkipped, "task_skipped"},
    KindName{EventKind::kItemSetAside, "item_set_aside"},  KindName{EventKind::kItemReturned, "item_returned"},
    KindName{EventKind::kRowsAppended, "rows_appended"},   KindName{EventKind::kRetrainRequested, "retrain_requested"},
};

}  // namespace

const char* EventKindName(EventKind kind) {
  const auto* const found = std::find_if(kKinds.begin(), kKinds.end(), [&](const auto& k) { return k.kind == kind; });
  return found == kKinds.end() ? "unknown" : found->name;
}

bool IsEventKind(std::int64_t number) {
  return std::any_of(kKinds.begin(), kKinds.end(),
                     [&](const auto& k) { return static_cast<std::int64_t>(k.kind) == number; });
}

namespace {

constexpr char kColumns[] =
    "sequence, kind, at_us, annotator, request_id, fingerprint, item, slot, lease, epoch, round, value, reason, cost, "
    "number, detail";

/// Binds what is there; what is not stays NULL, which takes a byte instead of the whole value.
class Binder {
 public:
  explicit Binder(SqliteStatement& statement) : statement_(statement) {}

  Binder& Put(int parameter, std::int64_t value) {
    if (status_.ok() && value != 0) status_ = statement_.Bind(parameter, value);
    return *this;
  }
  Binder& Put(int parameter, double value) {
    if (status_.ok() && value != 0) status_ = statement_.Bind(parameter, value);
    return *this;
  }
  Binder& Put(int parameter, const std::string& text) {
    if (status_.ok() && !text.empty()) status_ = statement_.BindInPlace(parameter, text);
    return *this;
  }
  const absl::Status& status() const { return status_; }

 private:
  SqliteStatement& statement_;
  absl::Status status_;
};

std::string Text(const SqliteStatement& row, int column) {
  return std::string(row.ColumnText(column));
}

absl::StatusOr<Event> ReadEvent(const SqliteStatement& row) {
  const std::int64_t kind = row.ColumnInt64(1);
  if (!IsEventKind(kind)) {
    return absl::DataLossError(absl::StrCat("event ", row.ColumnInt64(0), " of the log is of an unknown kind, ", kind,
                                            "; restore a backup, or use the program that wrote it"));
  }
  return Event{.sequence = row.ColumnInt64(0),
               .kind = static_cast<EventKind>(kind),
               .at = FromMicros(row.ColumnInt64(2)),
               .annotator = Text(row, 3),
               .request_id = Text(row, 4),
               .fingerprint = row.ColumnInt64(5),
               .item = Text(row, 6),
               .slot = row.ColumnInt64(7),
               .lease = row.ColumnInt64(8),
               .epoch = row.ColumnInt64(9),
               .round = row.ColumnInt64(10),
               .value = Text(row, 11),
               .reason = Text(row, 12),
               .cost = row.ColumnDouble(13),
               .number = row.ColumnInt64(14),
               .detail = Text(row, 15)};
}

}  // namespace

EventLog::EventLog(SqliteStatement append, SqliteStatement range, SqliteStatement last)
    : append_(std::move(append)), range_(std::move(range)), last_(std::move(last)) {}

absl::StatusOr<EventLog> EventLog::Open(SqliteDatabase& database) {
  FULCRUM_ASSIGN_OR_RETURN(
      SqliteStatement append,
      database.Prepare(absl::StrCat("INSERT INTO event(", kColumns,
                                    ") VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16)")));
  FULCRUM_ASSIGN_OR_RETURN(SqliteStatement range,
                           database.Prepare(absl::StrCat(
                               "SELECT ", kColumns, " FROM event WHERE sequence BETWEEN ?1 AND ?2 ORDER BY sequence")));
  FULCRUM_ASSIGN_OR_RETURN(SqliteStatement last, database.Prepare("SELECT coalesce(max(sequence), 0) FROM event"));
  return EventLog(std::move(append), std::move(range), std::move(last));
}

absl::Status EventLog::Append(const Event& event) {
  append_.ClearBindings();
  Binder binder(append_);
  binder.Put(1, event.sequence).Put(2, static_cast<std::int64_t>(event.kind));
  // Time is never NULL, not even at the start of the epoch.
  FULCRUM_RETURN_IF_ERROR(append_.Bind(3, ToMicros(event.at)));
  binder.Put(4, event.annotator).Put(5, event.request_id).Put(6, event.fingerprint).Put(7, event.item);
  binder.Put(8, event.slot).Put(9, event.lease).Put(10, event.epoch).Put(11, event.round).Put(12, event.value);
  binder.Put(13, event.reason).Put(14, event.cost).Put(15, event.number).Put(16, event.detail);
  FULCRUM_RETURN_IF_ERROR(binder.status());
  return append_.Run();
}

absl::StatusOr<Event> EventLog::Find(std::int64_t sequence) {
  std::optional<Event> found;
  FULCRUM_RETURN_IF_ERROR(Visit(sequence, sequence, [&](const Event& event) {
    found = event;
    return absl::OkStatus();
  }));
  if (!found.has_value()) return absl::NotFoundError(absl::StrCat("the log has no event ", sequence));
  return *std::move(found);
}

absl::Status EventLog::Visit(std::int64_t first, std::int64_t last,
                             const std::function<absl::Status(const Event&)>& visit) {
  const absl::Cleanup reset = [this] { range_.Reset(); };
  FULCRUM_RETURN_IF_ERROR(range_.Bind(1, first));
  FULCRUM_RETURN_IF_ERROR(range_.Bind(2, last));
  for (;;) {
    FULCRUM_ASSIGN_OR_RETURN(const bool has_row, range_.Step());
    if (!has_row) return absl::OkStatus();
    FULCRUM_ASSIGN_OR_RETURN(const Event event, ReadEvent(range_));
    FULCRUM_RETURN_IF_ERROR(visit(event));
  }
}

absl::StatusOr<std::int64_t> EventLog::LastSequence() {
  const absl::Cleanup reset = [this] { last_.Reset(); };
  FULCRUM_ASSIGN_OR_RETURN(const bool has_row, last_.Step());
  return has_row ? last_.ColumnInt64(0) : 0;
}

}  // namespace fulcrum::storage
