#include "storage/log/event_log.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
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

/// Each step is invertible in the state and in the word: what differs in one word stays different to the end.
class ChainState {
 public:
  explicit ChainState(std::uint64_t start) : state_(start) {}
  void Add(std::uint64_t word) {
    state_ = (state_ ^ word) * 0x9E3779B97F4A7C15ULL;
    state_ ^= state_ >> 32;
  }
  void Add(std::int64_t number) { Add(static_cast<std::uint64_t>(number)); }
  void Add(const std::string& text) {
    // The length keeps ("ab", "c") apart from ("a", "bc").
    Add(static_cast<std::uint64_t>(text.size()));
    for (std::size_t i = 0; i < text.size(); i += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, text.data() + i, std::min(sizeof(word), text.size() - i));
      Add(word);
    }
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_;
};

absl::Status ChangedEvent(const Event& event, const char* what) {
  return absl::DataLossError(absl::StrCat("event ", event.sequence, " (", EventKindName(event.kind),
                                          ") of the log cannot have happened: ", what,
                                          "; it, or an event before it, was changed or lost. Restore a backup"));
}

}  // namespace

std::uint64_t ExtendChain(std::uint64_t chain, const Event& event) {
  ChainState state(chain);
  state.Add(event.sequence);
  state.Add(static_cast<std::int64_t>(event.kind));
  state.Add(ToMicros(event.at));
  state.Add(event.annotator);
  state.Add(event.request_id);
  state.Add(event.fingerprint);
  state.Add(event.item);
  state.Add(event.slot);
  state.Add(event.lease);
  state.Add(event.epoch);
  state.Add(event.round);
  state.Add(event.value);
  state.Add(event.reason);
  // Both zeros are stored as NULL.
  state.Add(event.cost == 0 ? std::uint64_t{0} : std::bit_cast<std::uint64_t>(event.cost));
  state.Add(event.number);
  state.Add(event.detail);
  return state.value();
}

EventLog::EventLog(SqliteStatement append, SqliteStatement range, SqliteStatement last)
    : append_(std::move(append)), range_(std::move(range)), last_(std::move(last)) {}

absl::StatusOr<EventLog> EventLog::Open(SqliteDatabase& database) {
  const bool has_chain = database.Prepare("SELECT chain FROM event").ok();
  FULCRUM_ASSIGN_OR_RETURN(
      SqliteStatement append,
      database.Prepare(absl::StrCat("INSERT INTO event(", kColumns, has_chain ? ", chain" : "",
                                    ") VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16",
                                    has_chain ? ",?17" : "", ")")));
  FULCRUM_ASSIGN_OR_RETURN(
      SqliteStatement range,
      database.Prepare(absl::StrCat("SELECT ", kColumns, has_chain ? ", chain" : ", NULL",
                                    " FROM event WHERE sequence BETWEEN ?1 AND ?2 ORDER BY sequence")));
  FULCRUM_ASSIGN_OR_RETURN(SqliteStatement last, database.Prepare("SELECT coalesce(max(sequence), 0) FROM event"));
  EventLog log(std::move(append), std::move(range), std::move(last));
  log.has_chain_ = has_chain;
  if (!has_chain) return log;
  FULCRUM_ASSIGN_OR_RETURN(SqliteStatement start, database.Prepare("SELECT sequence, chain FROM chain_start"));
  FULCRUM_ASSIGN_OR_RETURN(const bool has_start, start.Step());
  if (has_start) log.start_ = {start.ColumnInt64(0), static_cast<std::uint64_t>(start.ColumnInt64(1))};
  return log;
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
  if (!has_chain_) return append_.Run();
  // After a rollback the sequence differs, and the stored checksum counts.
  if (appended_.sequence != event.sequence - 1) {
    FULCRUM_ASSIGN_OR_RETURN(const auto before, StoredChain(event.sequence - 1));
    if (!before.has_value()) return ChangedEvent(event, "the event before it has no checksum");
    appended_.chain = *before;
  }
  const LogPosition position{event.sequence, ExtendChain(appended_.chain, event)};
  FULCRUM_RETURN_IF_ERROR(append_.Bind(17, static_cast<std::int64_t>(position.chain)));
  FULCRUM_RETURN_IF_ERROR(append_.Run());
  appended_ = position;
  return absl::OkStatus();
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

std::optional<std::uint64_t> EventLog::ChainOfRow() const {
  if (!range_.ColumnIsNull(16)) return static_cast<std::uint64_t>(range_.ColumnInt64(16));
  if (range_.ColumnInt64(0) == start_.sequence) return start_.chain;
  return std::nullopt;
}

absl::StatusOr<std::optional<std::uint64_t>> EventLog::CheckRow(std::optional<std::uint64_t> before,
                                                                const Event& event) const {
  const std::optional<std::uint64_t> stored = ChainOfRow();
  if (has_chain_ && !stored.has_value() && event.sequence > start_.sequence) {
    return ChangedEvent(event, "it has no checksum");
  }
  if (!before.has_value()) return stored;
  const std::uint64_t chain = ExtendChain(*before, event);
  if (stored.has_value() && *stored != chain) return ChangedEvent(event, "its checksum does not match");
  return std::optional(chain);
}

absl::Status EventLog::Visit(std::int64_t first, std::int64_t last,
                             const std::function<absl::Status(const Event&)>& visit) {
  const absl::Cleanup reset = [this] { range_.Reset(); };
  FULCRUM_RETURN_IF_ERROR(range_.Bind(1, std::max<std::int64_t>(first, 1) - 1));
  FULCRUM_RETURN_IF_ERROR(range_.Bind(2, last));
  std::optional<std::uint64_t> chain;
  if (first <= 1) chain = 0;
  for (;;) {
    FULCRUM_ASSIGN_OR_RETURN(const bool has_row, range_.Step());
    if (!has_row) return absl::OkStatus();
    // The event before the first one is read for its checksum only.
    if (range_.ColumnInt64(0) < first) {
      chain = ChainOfRow();
      continue;
    }
    FULCRUM_ASSIGN_OR_RETURN(const Event event, ReadEvent(range_));
    FULCRUM_ASSIGN_OR_RETURN(chain, CheckRow(chain, event));
    FULCRUM_RETURN_IF_ERROR(visit(event));
  }
}

absl::StatusOr<std::int64_t> EventLog::LastSequence() {
  const absl::Cleanup reset = [this] { last_.Reset(); };
  FULCRUM_ASSIGN_OR_RETURN(const bool has_row, last_.Step());
  return has_row ? last_.ColumnInt64(0) : 0;
}

absl::StatusOr<std::optional<std::uint64_t>> EventLog::StoredChain(std::int64_t sequence) {
  if (sequence == 0) return std::optional<std::uint64_t>(0);
  const absl::Cleanup reset = [this] { range_.Reset(); };
  FULCRUM_RETURN_IF_ERROR(range_.Bind(1, sequence));
  FULCRUM_RETURN_IF_ERROR(range_.Bind(2, sequence));
  FULCRUM_ASSIGN_OR_RETURN(const bool has_row, range_.Step());
  return has_row ? ChainOfRow() : std::nullopt;
}

}  // namespace fulcrum::storage
