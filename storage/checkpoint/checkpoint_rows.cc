#include <array>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "stages/core/files.h"
#include "stages/core/number_text.h"
#include "stages/core/status_macros.h"
#include "storage/checkpoint/checkpoint.h"

namespace fulcrum::storage {
namespace {

constexpr std::size_t kSlotCells = 7;
constexpr std::size_t kLeaseCells = 4;

absl::Status Damaged(absl::string_view what, absl::string_view item) {
  return absl::DataLossError(absl::StrCat("the row of item '", item, "' in the derived tables is damaged: ", what));
}

template <typename Status, typename Name>
absl::StatusOr<Status> ParseStatus(absl::string_view text, Name name, Status last) {
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    if (text == name(static_cast<Status>(i))) return static_cast<Status>(i);
  }
  return absl::DataLossError(absl::StrCat("unknown status '", text, "'"));
}

/// The columns of an item's row before the checksum.
struct ItemRow {
  std::array<std::string, 5> texts = {};     ///< item, status, value, reason, imported
  std::array<std::int64_t, 6> numbers = {};  ///< round, rank, decided_sequence, bad_reports, next_slot, first
  double cost = 0;
  std::array<std::string, 3> lists = {};  ///< votes, declined_by, slots

  std::int64_t Sum() const {
    Checksum sum;
    const auto add = [&](const std::string& text) {
      const std::uint64_t size = text.size();
      sum.Add({reinterpret_cast<const char*>(&size), sizeof(size)});
      sum.Add(text);
    };
    for (const std::string& text : texts) add(text);
    for (const std::string& text : lists) add(text);
    sum.Add({reinterpret_cast<const char*>(numbers.data()), sizeof(numbers)});
    sum.Add({reinterpret_cast<const char*>(&cost), sizeof(cost)});
    return static_cast<std::int64_t>(sum.value());
  }
};

ItemRow ToRow(const StoredItem& stored) {
  const Item& item = stored.item;
  JsonRows votes;
  for (const Vote& vote : item.votes) {
    votes.Row().Add(vote.annotator).Add(vote.value).Add(vote.sequence);
    if (vote.withdrawn) votes.Add("withdrawn");
  }
  JsonRows declined;
  for (const std::string& annotator : item.declined_by) declined.Row().Add(annotator);
  JsonRows slots;
  for (const Slot& slot : item.slots) {
    slots.Row().Add(slot.number).Add(SlotStatusName(slot.status)).Add(slot.round).Add(slot.lease).Add(slot.epoch);
    slots.Add(slot.attempts).Add(slot.passes);
    for (const Lease& lease : stored.leases) {
      if (lease.id != slot.lease) continue;
      slots.Add(lease.annotator).Add(lease.round).Add(ToMicros(lease.expires_at)).Add(lease.cost);
    }
  }
  return {
      .texts = {item.id, ItemStatusName(item.status), item.value, item.reason, item.imported},
      .numbers = {item.round, item.rank, item.decided_sequence, item.bad_reports, item.next_slot, item.first_sequence},
      .cost = item.cost,
      .lists = {votes.Take(), declined.Take(), slots.Take()}};
}

absl::Status ParseVotes(const std::string& text, Item& item) {
  FULCRUM_ASSIGN_OR_RETURN(const auto rows, JsonRows::Parse(text));
  for (const auto& cells : rows) {
    Vote vote;
    if (cells.size() < 3 || !absl::SimpleAtoi(cells[2], &vote.sequence)) return absl::DataLossError("votes");
    vote.annotator = cells[0];
    vote.value = cells[1];
    vote.withdrawn = cells.size() == 4;
    item.votes.push_back(std::move(vote));
  }
  return absl::OkStatus();
}

absl::Status ParseSlots(const std::string& text, StoredItem& stored) {
  FULCRUM_ASSIGN_OR_RETURN(const auto rows, JsonRows::Parse(text));
  for (const auto& cells : rows) {
    Slot slot;
    if (cells.size() != kSlotCells && cells.size() != kSlotCells + kLeaseCells) return absl::DataLossError("slots");
    FULCRUM_ASSIGN_OR_RETURN(slot.status, ParseStatus(cells[1], SlotStatusName, SlotStatus::kClosed));
    const bool numbers = absl::SimpleAtoi(cells[0], &slot.number) && absl::SimpleAtoi(cells[2], &slot.round) &&
                         absl::SimpleAtoi(cells[3], &slot.lease) && absl::SimpleAtoi(cells[4], &slot.epoch) &&
                         absl::SimpleAtoi(cells[5], &slot.attempts) && absl::SimpleAtoi(cells[6], &slot.passes);
    if (!numbers || (slot.lease != 0) != (cells.size() > kSlotCells)) return absl::DataLossError("slots");
    stored.item.slots.push_back(slot);
    if (slot.lease == 0) continue;
    Lease lease{
        .id = slot.lease, .item = stored.item.id, .slot = slot.number, .epoch = slot.epoch, .annotator = cells[7]};
    std::int64_t expires_us = 0;
    const auto cost = ParseNumber(cells[10]);
    if (!absl::SimpleAtoi(cells[8], &lease.round) || !absl::SimpleAtoi(cells[9], &expires_us) || !cost) {
      return absl::DataLossError("leases");
    }
    lease.expires_at = FromMicros(expires_us);
    lease.cost = *cost;
    stored.leases.push_back(std::move(lease));
  }
  return absl::OkStatus();
}

absl::StatusOr<StoredItem> FromRow(const ItemRow& row) {
  StoredItem stored;
  Item& item = stored.item;
  item.id = row.texts[0];
  FULCRUM_ASSIGN_OR_RETURN(item.status, ParseStatus(row.texts[1], ItemStatusName, ItemStatus::kSetAside));
  item.value = row.texts[2];
  item.reason = row.texts[3];
  item.imported = row.texts[4];
  item.round = row.numbers[0];
  item.rank = row.numbers[1];
  item.decided_sequence = row.numbers[2];
  item.bad_reports = row.numbers[3];
  item.next_slot = row.numbers[4];
  item.first_sequence = row.numbers[5];
  item.cost = row.cost;
  FULCRUM_RETURN_IF_ERROR(ParseVotes(row.lists[0], item));
  FULCRUM_ASSIGN_OR_RETURN(const auto declined, JsonRows::Parse(row.lists[1]));
  for (const auto& cells : declined) item.declined_by.push_back(cells.empty() ? "" : cells[0]);
  FULCRUM_RETURN_IF_ERROR(ParseSlots(row.lists[2], stored));
  return stored;
}

}  // namespace

StoredItem WithLeases(const Item& item, const LeaseTable& leases) {
  StoredItem stored{.item = item};
  for (const Slot& slot : item.slots) {
    if (slot.lease != 0) stored.leases.push_back(*leases.Find(slot.lease));
  }
  return stored;
}

absl::Status BindItem(const StoredItem& item, SqliteStatement& statement) {
  const ItemRow row = ToRow(item);
  int parameter = 0;
  const auto bind = [&](const auto& value) { return statement.Bind(++parameter, value); };
  for (std::size_t i = 0; i < 4; ++i) FULCRUM_RETURN_IF_ERROR(bind(std::string_view(row.texts[i])));
  for (std::size_t i = 0; i < 2; ++i) FULCRUM_RETURN_IF_ERROR(bind(row.numbers[i]));
  FULCRUM_RETURN_IF_ERROR(bind(row.cost));
  FULCRUM_RETURN_IF_ERROR(bind(row.numbers[2]));
  FULCRUM_RETURN_IF_ERROR(bind(std::string_view(row.texts[4])));
  for (std::size_t i = 3; i < 6; ++i) FULCRUM_RETURN_IF_ERROR(bind(row.numbers[i]));
  for (const std::string& list : row.lists) FULCRUM_RETURN_IF_ERROR(bind(std::string_view(list)));
  return bind(row.Sum());
}

absl::StatusOr<StoredItem> ReadItem(const SqliteStatement& row) {
  const auto text = [&](int column) { return std::string(row.ColumnText(column)); };
  const ItemRow read{.texts = {text(0), text(1), text(2), text(3), text(8)},
                     .numbers = {row.ColumnInt64(4), row.ColumnInt64(5), row.ColumnInt64(7), row.ColumnInt64(9),
                                 row.ColumnInt64(10), row.ColumnInt64(11)},
                     .cost = row.ColumnDouble(6),
                     .lists = {text(12), text(13), text(14)}};
  if (read.Sum() != row.ColumnInt64(15))
    return Damaged(absl::StrCat("its checksum does not match (", absl::StrJoin(read.texts, ", "), ")"), read.texts[0]);
  absl::StatusOr<StoredItem> item = FromRow(read);
  if (!item.ok()) return Damaged(item.status().message(), read.texts[0]);
  return item;
}

std::string Describe(const StoredItem& item) {
  const ItemRow row = ToRow(item);
  return absl::StrCat(absl::StrJoin(row.texts, ", "), ", ", absl::StrJoin(row.numbers, ", "), ", ", row.cost, ", ",
                      absl::StrJoin(row.lists, ", "));
}

absl::Status BindRound(const Round& round, SqliteStatement& statement) {
  int parameter = 0;
  const auto bind = [&](const auto& value) { return statement.Bind(++parameter, value); };
  FULCRUM_RETURN_IF_ERROR(bind(round.number));
  FULCRUM_RETURN_IF_ERROR(bind(std::string_view(round.open ? "open" : "closed")));
  FULCRUM_RETURN_IF_ERROR(bind(ToMicros(round.started_at)));
  FULCRUM_RETURN_IF_ERROR(bind(ToMicros(round.closed_at)));
  FULCRUM_RETURN_IF_ERROR(bind(std::string_view(round.reason)));
  for (const std::int64_t count : {round.items, round.labeled, round.disputed, round.set_aside, round.based_on}) {
    FULCRUM_RETURN_IF_ERROR(bind(count));
  }
  return bind(std::string_view(round.files));
}

Round ReadRound(const SqliteStatement& row) {
  return {.number = row.ColumnInt64(0),
          .open = row.ColumnText(1) == "open",
          .started_at = FromMicros(row.ColumnInt64(2)),
          .closed_at = FromMicros(row.ColumnInt64(3)),
          .reason = std::string(row.ColumnText(4)),
          .based_on = row.ColumnInt64(9),
          .files = std::string(row.ColumnText(10)),
          .items = row.ColumnInt64(5),
          .labeled = row.ColumnInt64(6),
          .disputed = row.ColumnInt64(7),
          .set_aside = row.ColumnInt64(8)};
}

std::string Describe(const Round& round) {
  return absl::StrCat(round.number, ", ", round.open ? "open" : "closed", ", ", ToMicros(round.started_at), ", ",
                      ToMicros(round.closed_at), ", ", round.reason, ", ", round.items, ", ", round.labeled, ", ",
                      round.disputed, ", ", round.set_aside, ", ", round.based_on, ", ", round.files);
}

absl::Status BindModel(const StoredModel& model, SqliteStatement& statement) {
  FULCRUM_RETURN_IF_ERROR(statement.Bind(1, model.sequence));
  FULCRUM_RETURN_IF_ERROR(statement.Bind(2, model.round));
  FULCRUM_RETURN_IF_ERROR(statement.Bind(3, model.trained_on));
  FULCRUM_RETURN_IF_ERROR(statement.Bind(4, std::string_view(model.file)));
  FULCRUM_RETURN_IF_ERROR(statement.Bind(5, std::string_view(model.checksum)));
  FULCRUM_RETURN_IF_ERROR(statement.Bind(6, std::string_view(model.record)));
  return statement.Bind(7, ToMicros(model.at));
}

StoredModel ReadModel(const SqliteStatement& row) {
  return {.sequence = row.ColumnInt64(0),
          .round = row.ColumnInt64(1),
          .trained_on = row.ColumnInt64(2),
          .file = std::string(row.ColumnText(3)),
          .checksum = std::string(row.ColumnText(4)),
          .record = std::string(row.ColumnText(5)),
          .at = FromMicros(row.ColumnInt64(6))};
}

JsonRows& JsonRows::Row() {
  if (in_row_) text_ += ']';
  if (text_.size() > 1) text_ += ',';
  text_ += '[';
  in_row_ = true;
  return *this;
}

void JsonRows::Separate() {
  if (text_.back() != '[') text_ += ',';
}

JsonRows& JsonRows::Add(absl::string_view text) {
  Separate();
  text_ += '"';
  for (const char byte : text) {
    if (byte == '"' || byte == '\\') {
      text_ += '\\';
      text_ += byte;
    } else if (static_cast<unsigned char>(byte) < 0x20) {
      absl::StrAppendFormat(&text_, "\\u%04x", static_cast<int>(byte));
    } else {
      text_ += byte;
    }
  }
  text_ += '"';
  return *this;
}

JsonRows& JsonRows::Add(std::int64_t number) {
  Separate();
  absl::StrAppend(&text_, number);
  return *this;
}

JsonRows& JsonRows::Add(double number) {
  Separate();
  AppendNumber(number, text_);
  return *this;
}

std::string JsonRows::Take() {
  if (in_row_) text_ += ']';
  text_ += ']';
  return std::move(text_);
}

absl::StatusOr<std::vector<std::vector<std::string>>> JsonRows::Parse(absl::string_view text) {
  const absl::Status damaged = absl::DataLossError("a list is not what was written");
  std::vector<std::vector<std::string>> rows;
  std::size_t at = 0;
  const auto next = [&] { return at < text.size() ? text[at] : '\0'; };
  const auto take = [&](char wanted) { return next() == wanted && ++at > 0; };
  const auto take_text = [&](std::string& cell) {
    while (at < text.size() && text[at] != '"') {
      if (text[at] != '\\') {
        cell += text[at++];
      } else if (at + 5 < text.size() && text[at + 1] == 'u') {
        unsigned code = 0;
        if (!absl::SimpleHexAtoi(text.substr(at + 2, 4), &code)) return false;
        cell += static_cast<char>(code);
        at += 6;
      } else if (at + 1 < text.size()) {
        cell += text[at + 1];
        at += 2;
      } else {
        return false;
      }
    }
    return take('"');
  };
  if (!take('[')) return damaged;
  while (next() == '[' || (!rows.empty() && take(','))) {
    if (!take('[')) return damaged;
    std::vector<std::string>& cells = rows.emplace_back();
    while (next() != ']') {
      if (!cells.empty() && !take(',')) return damaged;
      std::string& cell = cells.emplace_back();
      if (take('"')) {
        if (!take_text(cell)) return damaged;
      } else {
        while (next() != ',' && next() != ']' && next() != '\0') cell += text[at++];
        if (cell.empty()) return damaged;
      }
    }
    ++at;
  }
  if (!take(']') || at != text.size()) return damaged;
  return rows;
}

}  // namespace fulcrum::storage
