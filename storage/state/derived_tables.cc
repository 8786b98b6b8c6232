#include "storage/state/derived_tables.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "stages/core/number_text.h"
#include "stages/core/status_macros.h"

namespace fulcrum::storage {
namespace {

std::string InsertStatement(const DerivedTableInfo& table) {
  std::string sql = absl::StrCat("INSERT OR REPLACE INTO ", table.name, " VALUES (?1");
  for (std::size_t i = 2; i <= table.columns; ++i) absl::StrAppend(&sql, ",?", i);
  return sql + ")";
}

absl::StatusOr<std::set<DerivedRow>> ReadRows(SqliteDatabase& database, const DerivedTableInfo& table) {
  FULCRUM_ASSIGN_OR_RETURN(SqliteStatement statement, database.Prepare(absl::StrCat("SELECT * FROM ", table.name)));
  std::set<DerivedRow> rows;
  for (;;) {
    FULCRUM_ASSIGN_OR_RETURN(const bool has_row, statement.Step());
    if (!has_row) return rows;
    DerivedRow row;
    for (std::size_t i = 0; i < table.columns; ++i) row.emplace_back(statement.ColumnText(static_cast<int>(i)));
    rows.insert(std::move(row));
  }
}

void AddMissing(const char* table, const std::set<DerivedRow>& rows, const std::set<DerivedRow>& others,
                const char* what, std::size_t most, std::vector<std::string>& differences) {
  for (const DerivedRow& row : rows) {
    if (others.contains(row) || differences.size() >= most) continue;
    differences.push_back(absl::StrCat("table ", table, ": ", what, " (", absl::StrJoin(row, ", "), ")"));
  }
}

}  // namespace

absl::StatusOr<DerivedTables> DerivedTables::Open(SqliteDatabase& database) {
  DerivedTables tables(database);
  for (const DerivedTableInfo& table : DerivedTableInfos()) {
    FULCRUM_ASSIGN_OR_RETURN(SqliteStatement insert, database.Prepare(InsertStatement(table)));
    tables.inserts_.push_back(std::move(insert));
  }
  for (const char* sql : {"DELETE FROM slot WHERE item=?1", "DELETE FROM lease WHERE item=?1"}) {
    FULCRUM_ASSIGN_OR_RETURN(SqliteStatement forget, database.Prepare(sql));
    tables.forget_item_.push_back(std::move(forget));
  }
  return tables;
}

absl::StatusOr<std::int64_t> DerivedTables::Through() {
  const auto text = database_->QueryText("SELECT value FROM derived WHERE name='through'");
  if (absl::IsNotFound(text.status())) return 0;
  if (!text.ok()) return text.status();
  std::int64_t through = 0;
  if (absl::SimpleAtoi(*text, &through) && through >= 0) return through;
  return absl::DataLossError(absl::StrCat("table derived: through is '", *text, "'; run fulcrum fsck --rebuild"));
}

absl::Status DerivedTables::Run(SqliteStatement& statement, const std::vector<std::string>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    FULCRUM_RETURN_IF_ERROR(statement.BindInPlace(static_cast<int>(i) + 1, values[i]));
  }
  return statement.Run();
}

absl::Status DerivedTables::WriteItem(const CampaignState& state, const Item& item) {
  for (SqliteStatement& forget : forget_item_) FULCRUM_RETURN_IF_ERROR(Run(forget, {item.id}));
  FULCRUM_RETURN_IF_ERROR(Run(inserts_[static_cast<std::size_t>(DerivedTable::kItem)], RowOf(item)));
  for (const Slot& slot : item.slots) {
    FULCRUM_RETURN_IF_ERROR(Run(inserts_[static_cast<std::size_t>(DerivedTable::kSlot)], RowOf(item, slot)));
    if (slot.lease == 0) continue;
    FULCRUM_RETURN_IF_ERROR(
        Run(inserts_[static_cast<std::size_t>(DerivedTable::kLease)], RowOf(*state.FindLease(slot.lease))));
  }
  return absl::OkStatus();
}

absl::Status DerivedTables::WriteFigures(const CampaignState& state) {
  for (const DerivedRow& row : FigureRows(state)) {
    FULCRUM_RETURN_IF_ERROR(Run(inserts_[static_cast<std::size_t>(DerivedTable::kFigure)], row));
  }
  return absl::OkStatus();
}

absl::Status DerivedTables::WriteItems(const CampaignState& state, const std::vector<const Item*>& items) {
  for (const Item* item : items) FULCRUM_RETURN_IF_ERROR(WriteItem(state, *item));
  return absl::OkStatus();
}

absl::Status DerivedTables::Finish(const CampaignState& state) {
  for (const std::int64_t number : state.changes().rounds) {
    const Round& round = state.rounds()[static_cast<std::size_t>(number - 1)];
    FULCRUM_RETURN_IF_ERROR(Run(inserts_[static_cast<std::size_t>(DerivedTable::kRound)], RowOf(round)));
  }
  return WriteFigures(state);
}

absl::Status DerivedTables::Rewrite(const CampaignState& state) {
  for (std::size_t i = 0; i < DerivedTableInfos().size(); ++i) {
    FULCRUM_RETURN_IF_ERROR(database_->Execute(absl::StrCat("DELETE FROM ", DerivedTableInfos()[i].name)));
    for (const DerivedRow& row : AllRows(state, static_cast<DerivedTable>(i))) {
      FULCRUM_RETURN_IF_ERROR(Run(inserts_[i], row));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> DerivedTables::FindDifferences(
    const CampaignState& state, const absl::flat_hash_set<std::string>& touched_later, std::size_t most) {
  std::vector<std::string> differences;
  for (std::size_t i = 0; i < DerivedTableInfos().size(); ++i) {
    const DerivedTableInfo& table = DerivedTableInfos()[i];
    const std::vector<DerivedRow> rows = AllRows(state, static_cast<DerivedTable>(i));
    std::set<DerivedRow> expected(rows.begin(), rows.end());
    FULCRUM_ASSIGN_OR_RETURN(std::set<DerivedRow> actual, ReadRows(*database_, table));
    if (table.item_column) {
      const auto is_touched = [&](const DerivedRow& row) { return touched_later.contains(row[*table.item_column]); };
      std::erase_if(expected, is_touched);
      std::erase_if(actual, is_touched);
    }
    AddMissing(table.name, expected, actual, "lacks", most, differences);
    AddMissing(table.name, actual, expected, "has, but the log does not say so,", most, differences);
  }
  return differences;
}

namespace {

std::string NumberText(double value) {
  std::string text;
  AppendNumber(value, text);
  return text;
}

std::string VoteText(const Item& item) {
  return absl::StrJoin(item.votes, "; ", [](std::string* out, const Vote& vote) {
    absl::StrAppend(out, vote.annotator, "=", vote.value, vote.withdrawn ? " (withdrawn)" : "", " @", vote.sequence);
  });
}

}  // namespace

const std::vector<DerivedTableInfo>& DerivedTableInfos() {
  static const auto* const infos = new std::vector<DerivedTableInfo>{
      {"item", 11, 0}, {"slot", 8, 0}, {"lease", 7, 1}, {"round", 11}, {"derived", 2}};
  return *infos;
}

DerivedRow RowOf(const Item& item) {
  return {item.id,
          ItemStatusName(item.status),
          item.value,
          item.reason,
          absl::StrCat(item.round),
          absl::StrCat(item.rank),
          NumberText(item.cost),
          absl::StrCat(item.decided_sequence),
          VoteText(item),
          absl::StrJoin(item.declined_by, "; "),
          item.imported};
}

DerivedRow RowOf(const Item& item, const Slot& slot) {
  return {item.id,
          absl::StrCat(slot.number),
          SlotStatusName(slot.status),
          absl::StrCat(slot.round),
          absl::StrCat(slot.lease),
          absl::StrCat(slot.epoch),
          absl::StrCat(slot.attempts),
          absl::StrCat(slot.passes)};
}

DerivedRow RowOf(const Lease& lease) {
  return {absl::StrCat(lease.id),
          lease.item,
          absl::StrCat(lease.slot),
          absl::StrCat(lease.epoch),
          lease.annotator,
          absl::StrCat(lease.round),
          absl::StrCat(ToMicros(lease.expires_at))};
}

DerivedRow RowOf(const Round& round) {
  return {absl::StrCat(round.number),
          round.open ? "open" : "closed",
          absl::StrCat(ToMicros(round.started_at)),
          absl::StrCat(ToMicros(round.closed_at)),
          round.reason,
          absl::StrCat(round.items),
          absl::StrCat(round.labeled),
          absl::StrCat(round.disputed),
          absl::StrCat(round.set_aside),
          absl::StrCat(round.based_on),
          round.files};
}

std::vector<DerivedRow> FigureRows(const CampaignState& state) {
  const Totals& totals = state.totals();
  return {{"through", absl::StrCat(state.last_sequence())},
          {"life", state.life()},
          {"life_reason", state.life_reason()},
          {"labels", absl::StrCat(totals.labels)},
          {"cost", NumberText(totals.cost)},
          {"label_budget", absl::StrCat(state.settings().label_budget)},
          {"cost_budget", NumberText(state.settings().cost_budget)},
          {"late_labels", absl::StrCat(totals.late_labels)},
          {"imported_labels", absl::StrCat(totals.imported)},
          {"skips", absl::StrCat(totals.skips)},
          {"expired_leases", absl::StrCat(totals.expired_leases)},
          {"models", absl::StrCat(state.models().size())}};
}

std::vector<DerivedRow> AllRows(const CampaignState& state, DerivedTable table) {
  std::vector<DerivedRow> rows;
  switch (table) {
    case DerivedTable::kItem:
      for (const auto& [id, item] : state.items()) rows.push_back(RowOf(item));
      return rows;
    case DerivedTable::kSlot:
      for (const auto& [id, item] : state.items()) {
        for (const Slot& slot : item.slots) rows.push_back(RowOf(item, slot));
      }
      return rows;
    case DerivedTable::kLease:
      for (const auto& [id, lease] : state.leases()) rows.push_back(RowOf(lease));
      return rows;
    case DerivedTable::kRound:
      for (const Round& round : state.rounds()) rows.push_back(RowOf(round));
      return rows;
    case DerivedTable::kFigure:
      return FigureRows(state);
  }
  return rows;
}

}  // namespace fulcrum::storage
