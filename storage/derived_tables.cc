#include "storage/derived_tables.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "stages/core/status_macros.h"
#include "storage/derived_rows.h"

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

}  // namespace fulcrum::storage
