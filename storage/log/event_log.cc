#include "storage/log/event_log.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"

namespace fulcrum::storage {
namespace {

constexpr char kEventColumns[] =
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

EventRow ReadRow(const SqliteStatement& row) {
  return {.sequence = row.ColumnInt64(0),
          .kind = static_cast<EventKind>(row.ColumnInt64(1)),
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

absl::Status ChangedEvent(const EventRow& row, const char* what) {
  return absl::DataLossError(absl::StrCat("event ", row.sequence, " (", EventKindName(row.kind),
                                          ") of the log cannot have happened: ", what,
                                          "; it, or an event before it, was changed or lost. Restore a backup"));
}

}  // namespace

std::uint64_t ExtendChain(std::uint64_t chain, const EventRow& row) {
  ChainState state(chain);
  state.Add(row.sequence);
  state.Add(static_cast<std::int64_t>(row.kind));
  state.Add(ToMicros(row.at));
  state.Add(row.annotator);
  state.Add(row.request_id);
  state.Add(row.fingerprint);
  state.Add(row.item);
  state.Add(row.slot);
  state.Add(row.lease);
  state.Add(row.epoch);
  state.Add(row.round);
  state.Add(row.value);
  state.Add(row.reason);
  // Both zeros are stored as NULL.
  state.Add(row.cost == 0 ? std::uint64_t{0} : std::bit_cast<std::uint64_t>(row.cost));
  state.Add(row.number);
  state.Add(row.detail);
  return state.value();
}

EventLog::EventLog(SqliteStatement append, SqliteStatement range, SqliteStatement last)
    : append_(std::move(append)), range_(std::move(range)), last_(std::move(last)) {}

absl::StatusOr<EventLog> EventLog::Open(SqliteDatabase& database) {
  const bool has_chain = database.Prepare("SELECT chain FROM event").ok();
  FULCRUM_ASSIGN_OR_RETURN(
      SqliteStatement append,
      database.Prepare(absl::StrCat("INSERT INTO event(", kEventColumns, has_chain ? ", chain" : "",
                                    ") VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16",
                                    has_chain ? ",?17" : "", ")")));
  FULCRUM_ASSIGN_OR_RETURN(
      SqliteStatement range,
      database.Prepare(absl::StrCat("SELECT ", kEventColumns, has_chain ? ", chain" : ", NULL",
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

absl::Status EventLog::Append(const EventRow& row) {
  append_.ClearBindings();
  Binder binder(append_);
  binder.Put(1, row.sequence).Put(2, static_cast<std::int64_t>(row.kind));
  // Time is never NULL, not even at the start of the epoch.
  FULCRUM_RETURN_IF_ERROR(append_.Bind(3, ToMicros(row.at)));
  binder.Put(4, row.annotator).Put(5, row.request_id).Put(6, row.fingerprint).Put(7, row.item);
  binder.Put(8, row.slot).Put(9, row.lease).Put(10, row.epoch).Put(11, row.round).Put(12, row.value);
  binder.Put(13, row.reason).Put(14, row.cost).Put(15, row.number).Put(16, row.detail);
  FULCRUM_RETURN_IF_ERROR(binder.status());
  if (!has_chain_) return append_.Run();
  // After a rollback the sequence differs, and the stored checksum counts.
  if (appended_.sequence != row.sequence - 1) {
    FULCRUM_ASSIGN_OR_RETURN(const auto before, StoredChain(row.sequence - 1));
    if (!before.has_value()) return ChangedEvent(row, "the event before it has no checksum");
    appended_.chain = *before;
  }
  const LogPosition position{row.sequence, ExtendChain(appended_.chain, row)};
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
                                                                const EventRow& row) const {
  const std::optional<std::uint64_t> stored = ChainOfRow();
  if (has_chain_ && !stored.has_value() && row.sequence > start_.sequence) {
    return ChangedEvent(row, "it has no checksum");
  }
  if (!before.has_value()) return stored;
  const std::uint64_t chain = ExtendChain(*before, row);
  if (stored.has_value() && *stored != chain) return ChangedEvent(row, "its checksum does not match");
  return std::optional(chain);
}

absl::Status EventLog::Visit(std::int64_t first, std::int64_t last,
                             const std::function<absl::Status(const Event&)>& visit) {
  return VisitRows(first, last, [&](EventRow row) -> absl::Status {
    FULCRUM_ASSIGN_OR_RETURN(const Event event, DecodeEvent(std::move(row)));
    return visit(event);
  });
}

absl::Status EventLog::VisitRows(std::int64_t first, std::int64_t last,
                                 const std::function<absl::Status(EventRow)>& visit) {
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
    EventRow row = ReadRow(range_);
    FULCRUM_ASSIGN_OR_RETURN(chain, CheckRow(chain, row));
    FULCRUM_RETURN_IF_ERROR(visit(std::move(row)));
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
