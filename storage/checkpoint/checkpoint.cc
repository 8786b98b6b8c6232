#include "storage/checkpoint/checkpoint.h"

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"
#include "storage/state/campaign_state.h"

namespace fulcrum::storage {
namespace {

// Increase it when the rows or the figures change their meaning: older checkpoints are then derived again.
constexpr char kVersion[] = "6";

constexpr std::size_t kMostDamagedRows = 10;

// Both parts are read from the end, so that no more is read of an item than is asked for.
constexpr char kHistoryQuery[] =
    "SELECT sequence FROM item_event WHERE item=?1 AND sequence<=?2 UNION ALL "
    "SELECT sequence FROM event WHERE sequence>?2 AND item=?1 ORDER BY sequence DESC LIMIT ?3";

std::string Placeholders(absl::string_view columns) {
  std::vector<absl::string_view> marks(1, "?");
  for (const char c : columns) {
    if (c == ',') marks.push_back("?");
  }
  return absl::StrJoin(marks, ",");
}

std::string Insert(absl::string_view table, absl::string_view columns) {
  return absl::StrCat("INSERT OR REPLACE INTO ", table, "(", columns, ") VALUES (", Placeholders(columns), ")");
}

/// Of all figures but itself.
std::string ChecksumOf(const std::map<std::string, std::string>& figures) {
  Checksum checksum;
  for (const auto& [name, value] : figures) {
    if (name != "checksum") checksum.Add(absl::StrCat(name, "=", value.size(), ":", value, ";"));
  }
  return checksum.ToText();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(SqliteDatabase& database) {
  std::unique_ptr<Checkpoint> checkpoint(new Checkpoint(database));
  FULCRUM_RETURN_IF_ERROR(checkpoint->Prepare());
  return checkpoint;
}

absl::Status Checkpoint::Prepare() {
  const auto prepare = [&](std::optional<SqliteStatement>& statement, const std::string& sql) -> absl::Status {
    FULCRUM_ASSIGN_OR_RETURN(statement, database_.Prepare(sql));
    return absl::OkStatus();
  };
  // An item that the log mentions after the checkpoint for the first time is not in it.
  FULCRUM_RETURN_IF_ERROR(
      prepare(find_item_, absl::StrCat("SELECT ", kItemColumns, " FROM item WHERE item=?1 AND first_sequence<=?2")));
  FULCRUM_RETURN_IF_ERROR(
      prepare(find_before_, absl::StrCat("SELECT ", kItemColumns, " FROM item_before WHERE item=?1")));
  FULCRUM_RETURN_IF_ERROR(
      prepare(find_request_, "SELECT sequence FROM request WHERE high=?1 AND low=?2 AND sequence<=?3"));
  FULCRUM_RETURN_IF_ERROR(
      prepare(keep_item_, "INSERT OR IGNORE INTO item_before SELECT * FROM item WHERE item=?1 AND first_sequence<=?2"));
  FULCRUM_RETURN_IF_ERROR(prepare(write_item_, Insert("item", kItemColumns)));
  FULCRUM_RETURN_IF_ERROR(prepare(write_request_, Insert("request", "high, low, sequence")));
  // In the order of the key, which is that of the pages. A checkpoint that was not finished may have written some.
  return prepare(write_history_,
                 "INSERT OR IGNORE INTO item_event SELECT item, sequence FROM event WHERE sequence>?1 AND sequence<=?2 "
                 "AND item IS NOT NULL ORDER BY item, sequence");
}

absl::Status Checkpoint::Load() {
  position_ = {};
  history_through_ = 0;
  figures_.clear();
  damage_ = absl::OkStatus();
  VisitQuery("SELECT name, value FROM derived", [&](const SqliteStatement& row) {
    figures_.emplace(std::string(row.ColumnText(0)), std::string(row.ColumnText(1)));
    return absl::OkStatus();
  });
  FULCRUM_RETURN_IF_ERROR(damage_);
  if (figures_.empty()) return absl::OkStatus();
  if (figures_["version"] != kVersion) {
    return absl::DataLossError(absl::StrCat("the checkpoint has version '", figures_["version"],
                                            "', and this program reads version ", kVersion));
  }
  LogPosition position;
  const bool complete = figures_["checksum"] == ChecksumOf(figures_) &&
                        absl::SimpleAtoi(figures_["through"], &position.sequence) &&
                        absl::SimpleHexAtoi(figures_["chain"], &position.chain) && position.sequence > 0;
  if (!complete) return absl::DataLossError("the figures of the checkpoint are damaged");
  has_before_ = false;
  VisitQuery("SELECT 1 FROM item_before LIMIT 1", [&](const SqliteStatement&) {
    has_before_ = true;
    return absl::OkStatus();
  });
  FULCRUM_RETURN_IF_ERROR(damage_);
  position_ = position;
  history_through_ = position.sequence;
  return absl::OkStatus();
}

void Checkpoint::Note(const absl::Status& status) {
  if (status.ok()) return;
  if (damage_.ok()) damage_ = status;
  if (damaged_rows_.size() < kMostDamagedRows) damaged_rows_.emplace_back(status.message());
}

void Checkpoint::VisitRows(SqliteStatement& statement,
                           const std::function<absl::Status(const SqliteStatement&)>& visit) {
  const absl::Cleanup reset = [&] { statement.Reset(); };
  for (;;) {
    const absl::StatusOr<bool> has_row = statement.Step();
    if (!has_row.ok()) return Note(has_row.status());
    if (!*has_row) return;
    const absl::Status status = visit(statement);
    if (absl::IsCancelled(status)) return;
    Note(status);
  }
}

std::optional<StoredItem> Checkpoint::FindItem(absl::string_view id) {
  std::optional<StoredItem> found;
  const std::string_view key(id.data(), id.size());
  const auto look = [&](SqliteStatement& statement) {
    Note(statement.BindInPlace(1, key));
    VisitRows(statement, [&](const SqliteStatement& row) -> absl::Status {
      FULCRUM_ASSIGN_OR_RETURN(found, ReadItem(row));
      return absl::OkStatus();
    });
  };
  if (has_before_) look(*find_before_);
  if (found) return found;
  Note(find_item_->Bind(2, position_.sequence));
  look(*find_item_);
  return found;
}

std::optional<std::int64_t> Checkpoint::FindRequest(const RequestKey& key) {
  std::optional<std::int64_t> sequence;
  Note(find_request_->Bind(1, static_cast<std::int64_t>(key.first)));
  Note(find_request_->Bind(2, static_cast<std::int64_t>(key.second)));
  Note(find_request_->Bind(3, position_.sequence));
  VisitRows(*find_request_, [&](const SqliteStatement& row) {
    sequence = row.ColumnInt64(0);
    return absl::OkStatus();
  });
  return sequence;
}

void Checkpoint::VisitQuery(const std::string& sql, const std::function<absl::Status(const SqliteStatement&)>& visit) {
  absl::StatusOr<SqliteStatement> select = database_.Prepare(sql);
  if (!select.ok()) return Note(select.status());
  VisitRows(*select, visit);
}

std::optional<Round> Checkpoint::FindRound(std::int64_t number) {
  std::optional<Round> found;
  VisitQuery(absl::StrCat("SELECT ", kRoundColumns, " FROM round WHERE round=", number),
             [&](const SqliteStatement& row) {
               found = ReadRound(row);
               return absl::OkStatus();
             });
  return found;
}

std::optional<StoredModel> Checkpoint::FindModel(std::int64_t round) {
  std::optional<StoredModel> found;
  const std::string where = round == 0 ? "" : absl::StrCat(" WHERE round=", round);
  VisitQuery(absl::StrCat("SELECT ", kModelColumns, " FROM model", where, " ORDER BY sequence DESC LIMIT 1"),
             [&](const SqliteStatement& row) {
               found = ReadModel(row);
               return absl::OkStatus();
             });
  return found;
}

void Checkpoint::VisitItems(const std::function<void(StoredItem)>& visit, Which which) {
  const std::string live = which == Which::kLive ? " AND slots<>'[]'" : "";
  // SQLite does not know that few items have slots.
  const std::string index = which == Which::kLive ? " INDEXED BY item_with_slots" : "";
  const std::string replaced = has_before_ ? " AND item NOT IN (SELECT item FROM item_before)" : "";
  for (const std::string& from :
       {absl::StrCat("item", index, " WHERE first_sequence<=", position_.sequence, live, replaced),
        absl::StrCat("item_before WHERE true", live)}) {
    VisitQuery(absl::StrCat("SELECT ", kItemColumns, " FROM ", from), [&](const SqliteStatement& row) -> absl::Status {
      FULCRUM_ASSIGN_OR_RETURN(StoredItem item, ReadItem(row));
      visit(std::move(item));
      return absl::OkStatus();
    });
  }
}

void Checkpoint::VisitItems(ItemStatus status, absl::string_view after,
                            const std::function<bool(const StoredItem&)>& visit) {
  // Most items are labeled, and offered ones are in memory: only the others have an index.
  const bool indexed = status != ItemStatus::kLabeled && status != ItemStatus::kOffered;
  const std::string where = absl::StrCat(" WHERE status='", ItemStatusName(status), "' AND item>?1");
  const std::string current = absl::StrCat(
      "SELECT ", kItemColumns, " FROM item", indexed ? " INDEXED BY item_by_status" : "", where,
      indexed ? " AND status<>'labeled' AND status<>'offered'" : "", " AND first_sequence<=", position_.sequence);
  const std::string sql =
      !has_before_ ? current
                   : absl::StrCat(current, " AND item NOT IN (SELECT item FROM item_before) UNION ALL SELECT ",
                                  kItemColumns, " FROM item_before", where);
  absl::StatusOr<SqliteStatement> select = database_.Prepare(absl::StrCat(sql, " ORDER BY item"));
  if (!select.ok()) return Note(select.status());
  Note(select->BindInPlace(1, std::string_view(after.data(), after.size())));
  VisitRows(*select, [&](const SqliteStatement& row) -> absl::Status {
    FULCRUM_ASSIGN_OR_RETURN(const StoredItem item, ReadItem(row));
    return visit(item) ? absl::OkStatus() : absl::CancelledError();
  });
}

void Checkpoint::VisitRequests(const std::function<void(const KnownRequest&)>& visit) {
  VisitQuery(
      absl::StrCat("SELECT high, low, sequence FROM request WHERE sequence<=", position_.sequence),
      [&](const SqliteStatement& row) {
        visit({.key = {static_cast<std::uint64_t>(row.ColumnInt64(0)), static_cast<std::uint64_t>(row.ColumnInt64(1))},
               .sequence = row.ColumnInt64(2)});
        return absl::OkStatus();
      });
}

void Checkpoint::VisitRounds(const std::function<void(const Round&)>& visit) {
  VisitQuery(absl::StrCat("SELECT ", kRoundColumns, " FROM round ORDER BY round"), [&](const SqliteStatement& row) {
    visit(ReadRound(row));
    return absl::OkStatus();
  });
}

void Checkpoint::VisitModels(const std::function<void(const StoredModel&)>& visit) {
  VisitQuery(absl::StrCat("SELECT ", kModelColumns, " FROM model ORDER BY sequence"), [&](const SqliteStatement& row) {
    visit(ReadModel(row));
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<std::int64_t>> Checkpoint::EventsOfItem(absl::string_view item, std::size_t most) {
  std::vector<std::int64_t> events;
  FULCRUM_ASSIGN_OR_RETURN(SqliteStatement select, database_.Prepare(kHistoryQuery));
  FULCRUM_RETURN_IF_ERROR(select.BindInPlace(1, std::string_view(item.data(), item.size())));
  FULCRUM_RETURN_IF_ERROR(select.Bind(2, position_.sequence));
  FULCRUM_RETURN_IF_ERROR(select.Bind(3, static_cast<std::int64_t>(most)));
  for (;;) {
    FULCRUM_ASSIGN_OR_RETURN(const bool has_row, select.Step());
    if (!has_row) break;
    events.push_back(select.ColumnInt64(0));
  }
  std::reverse(events.begin(), events.end());
  return events;
}

void Checkpoint::VisitHistoryDifferences(
    const std::function<void(const std::string& item, std::int64_t sequence)>& lacks,
    const std::function<void(const std::string& item, std::int64_t sequence)>& has) {
  const auto report = [](const auto& visit) {
    return [&visit](const SqliteStatement& row) {
      visit(std::string(row.ColumnText(0)), row.ColumnInt64(1));
      return absl::OkStatus();
    };
  };
  VisitQuery(
      absl::StrCat("SELECT item, sequence FROM event AS e WHERE item IS NOT NULL AND sequence<=", position_.sequence,
                   " AND NOT EXISTS (SELECT 1 FROM item_event AS h WHERE h.item=e.item AND "
                   "h.sequence=e.sequence)"),
      report(lacks));
  VisitQuery(absl::StrCat("SELECT item, sequence FROM item_event AS h WHERE sequence<=", position_.sequence,
                          " AND NOT EXISTS (SELECT 1 FROM event AS e WHERE e.sequence=h.sequence AND e.item=h.item)"),
             report(has));
}

absl::Status Checkpoint::Write(const CampaignState& state, const Group& group) {
  FULCRUM_ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::BeginWrite(database_));
  if (stale_) FULCRUM_RETURN_IF_ERROR(Clear());
  FULCRUM_RETURN_IF_ERROR(WriteItems(state, group.items));
  FULCRUM_RETURN_IF_ERROR(WriteRequests(group.requests));
  FULCRUM_RETURN_IF_ERROR(WriteHistory(group.history_through));
  std::map<std::string, std::string> figures;
  if (group.position) {
    figures = ExpectedFigures(state, *group.position);
    FULCRUM_RETURN_IF_ERROR(WriteRounds(state.rounds()));
    FULCRUM_RETURN_IF_ERROR(WriteFigures(figures));
    FULCRUM_RETURN_IF_ERROR(database_.Execute("DELETE FROM item_before"));
  }
  FULCRUM_RETURN_IF_ERROR(transaction.Commit());
  stale_ = false;
  history_through_ = std::max(history_through_, group.history_through);
  if (group.position) {
    position_ = *group.position;
    figures_ = std::move(figures);
    has_before_ = false;
  }
  return absl::OkStatus();
}

absl::Status Checkpoint::WriteItems(const CampaignState& state, const std::vector<const Item*>& items) {
  for (const Item* const item : items) {
    if (position_.sequence > 0) {
      FULCRUM_RETURN_IF_ERROR(keep_item_->BindInPlace(1, item->id));
      FULCRUM_RETURN_IF_ERROR(keep_item_->Bind(2, position_.sequence));
      FULCRUM_RETURN_IF_ERROR(keep_item_->Run());
    }
    FULCRUM_RETURN_IF_ERROR(BindItem(WithLeases(*item, state.leases()), *write_item_));
    FULCRUM_RETURN_IF_ERROR(write_item_->Run());
  }
  return absl::OkStatus();
}

absl::Status Checkpoint::WriteRequests(const std::vector<KnownRequest>& requests) {
  for (const KnownRequest& request : requests) {
    FULCRUM_RETURN_IF_ERROR(write_request_->Bind(1, static_cast<std::int64_t>(request.key.first)));
    FULCRUM_RETURN_IF_ERROR(write_request_->Bind(2, static_cast<std::int64_t>(request.key.second)));
    FULCRUM_RETURN_IF_ERROR(write_request_->Bind(3, request.sequence));
    FULCRUM_RETURN_IF_ERROR(write_request_->Run());
  }
  return absl::OkStatus();
}

absl::Status Checkpoint::WriteHistory(std::int64_t through) {
  if (through <= history_through_) return absl::OkStatus();
  FULCRUM_RETURN_IF_ERROR(write_history_->Bind(1, history_through_));
  FULCRUM_RETURN_IF_ERROR(write_history_->Bind(2, through));
  return write_history_->Run();
}

absl::Status Checkpoint::WriteRounds(const RoundTable& rounds) {
  FULCRUM_ASSIGN_OR_RETURN(SqliteStatement write_round, database_.Prepare(Insert("round", kRoundColumns)));
  for (const std::int64_t number : rounds.changed()) {
    FULCRUM_RETURN_IF_ERROR(BindRound(*rounds.Find(number), write_round));
    FULCRUM_RETURN_IF_ERROR(write_round.Run());
  }
  FULCRUM_ASSIGN_OR_RETURN(SqliteStatement write_model, database_.Prepare(Insert("model", kModelColumns)));
  for (const StoredModel& model : rounds.new_models()) {
    FULCRUM_RETURN_IF_ERROR(BindModel(model, write_model));
    FULCRUM_RETURN_IF_ERROR(write_model.Run());
  }
  return absl::OkStatus();
}

absl::Status Checkpoint::WriteFigures(const std::map<std::string, std::string>& figures) {
  FULCRUM_ASSIGN_OR_RETURN(SqliteStatement write, database_.Prepare(Insert("derived", "name, value")));
  for (const auto& [name, value] : figures) {
    const auto written = figures_.find(name);
    // The list of a large batch is not written again with every checkpoint.
    if (written != figures_.end() && written->second == value) continue;
    FULCRUM_RETURN_IF_ERROR(write.BindInPlace(1, name));
    FULCRUM_RETURN_IF_ERROR(write.BindInPlace(2, value));
    FULCRUM_RETURN_IF_ERROR(write.Run());
  }
  return absl::OkStatus();
}

void Checkpoint::Ignore() {
  position_ = {};
  history_through_ = 0;
  figures_.clear();
  has_before_ = false;
  damage_ = absl::OkStatus();
  damaged_rows_.clear();
  stale_ = true;
}

absl::Status Checkpoint::Clear() {
  for (const char* table : {"derived", "item", "item_before", "item_event", "request", "round", "model"}) {
    FULCRUM_RETURN_IF_ERROR(database_.Execute(absl::StrCat("DELETE FROM ", table)));
  }
  return absl::OkStatus();
}

absl::Status Checkpoint::Rewrite(const CampaignState& state, const LogPosition& position) {
  Ignore();
  Group all{.history_through = position.sequence, .position = position};
  state.items().Visit([&](const Item& item) { all.items.push_back(&item); });
  std::sort(all.items.begin(), all.items.end(), [](const Item* a, const Item* b) { return a->id < b->id; });
  state.requests().Visit([&](const KnownRequest& request) { all.requests.push_back(request); });
  std::sort(all.requests.begin(), all.requests.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  return Write(state, all);
}

std::map<std::string, std::string> ExpectedFigures(const CampaignState& state, const LogPosition& position) {
  std::map<std::string, std::string> figures = state.Figures();
  figures.emplace("version", kVersion);
  figures["through"] = absl::StrCat(position.sequence);
  figures["chain"] = absl::StrCat(absl::Hex(position.chain, absl::kZeroPad16));
  figures["checksum"] = ChecksumOf(figures);
  return figures;
}

}  // namespace fulcrum::storage
