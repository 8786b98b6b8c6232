#include "storage/state/derived_tables.h"

#include <algorithm>
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

/// Columns that a row of the table is found by.
std::size_t KeyColumns(DerivedTable table) {
  return table == DerivedTable::kSlot ? 2 : 1;
}

std::int64_t NumberOf(const std::string& text) {
  std::int64_t number = 0;
  return absl::SimpleAtoi(text, &number) ? number : -1;
}

/// The row that the table should have under the key of `row`; nothing if there should be none.
std::optional<DerivedRow> ExpectedRow(const CampaignState& state, DerivedTable table, const DerivedRow& row) {
  switch (table) {
    case DerivedTable::kItem: {
      const Item* const item = state.items().Find(row[0]);
      return item == nullptr ? std::nullopt : std::optional(RowOf(*item));
    }
    case DerivedTable::kSlot: {
      const Item* const item = state.items().Find(row[0]);
      const Slot* const slot = item == nullptr ? nullptr : ItemTable::FindSlot(*item, NumberOf(row[1]));
      return slot == nullptr ? std::nullopt : std::optional(RowOf(*item, *slot));
    }
    case DerivedTable::kLease: {
      const Lease* const lease = state.leases().Find(NumberOf(row[0]));
      return lease == nullptr ? std::nullopt : std::optional(RowOf(*lease));
    }
    case DerivedTable::kRound: {
      const Round* const round = state.rounds().Find(NumberOf(row[0]));
      return round == nullptr ? std::nullopt : std::optional(RowOf(*round));
    }
    case DerivedTable::kFigure: {
      const std::vector<DerivedRow> figures = FigureRows(state);
      const auto found = std::find_if(figures.begin(), figures.end(), [&](const auto& f) { return f[0] == row[0]; });
      return found == figures.end() ? std::nullopt : std::optional(*found);
    }
  }
  return std::nullopt;
}

/// Collects differences, at most so many.
class Differences {
 public:
  Differences(const char* table, std::size_t most, std::vector<std::string>& lines)
      : table_(table), most_(most), lines_(lines) {}
  void Lacks(const DerivedRow& row) { Add("lacks", row); }
  void HasTooMuch(const DerivedRow& row) { Add("has, but the log does not say so,", row); }

 private:
  void Add(const char* what, const DerivedRow& row) {
    if (lines_.size() >= most_) return;
    lines_.push_back(absl::StrCat("table ", table_, ": ", what, " (", absl::StrJoin(row, ", "), ")"));
  }

  const char* const table_;
  const std::size_t most_;
  std::vector<std::string>& lines_;
};

/// Compares every row of a table with what the state says; the number of rows that it says something about.
absl::StatusOr<std::size_t> CompareRows(SqliteDatabase& database, const CampaignState& state, DerivedTable table,
                                        const absl::flat_hash_set<std::string>& left_out, Differences& differences) {
  const DerivedTableInfo& info = DerivedTableInfos()[static_cast<std::size_t>(table)];
  FULCRUM_ASSIGN_OR_RETURN(SqliteStatement statement, database.Prepare(absl::StrCat("SELECT * FROM ", info.name)));
  std::size_t known = 0;
  for (DerivedRow row(info.columns);;) {
    FULCRUM_ASSIGN_OR_RETURN(const bool has_row, statement.Step());
    if (!has_row) return known;
    for (std::size_t i = 0; i < info.columns; ++i) row[i] = statement.ColumnText(static_cast<int>(i));
    if (info.item_column && left_out.contains(row[*info.item_column])) continue;
    const std::optional<DerivedRow> expected = ExpectedRow(state, table, row);
    if (expected) ++known;
    if (expected == row) continue;
    differences.HasTooMuch(row);
    if (expected) differences.Lacks(*expected);
  }
}

/// Looks for every row that the table should have.
absl::Status FindMissingRows(SqliteDatabase& database, const CampaignState& state, DerivedTable table,
                             const absl::flat_hash_set<std::string>& left_out, Differences& differences) {
  const DerivedTableInfo& info = DerivedTableInfos()[static_cast<std::size_t>(table)];
  const char* const key = table == DerivedTable::kFigure ? "name" : info.name;
  const std::string second = KeyColumns(table) == 2 ? " AND slot=?2" : "";
  FULCRUM_ASSIGN_OR_RETURN(SqliteStatement find,
                           database.Prepare(absl::StrCat("SELECT 1 FROM ", info.name, " WHERE ",
                                                         table == DerivedTable::kSlot ? "item" : key, "=?1", second)));
  absl::Status status;
  VisitRows(state, table, [&](const DerivedRow& row) {
    if (!status.ok() || (info.item_column && left_out.contains(row[*info.item_column]))) return;
    for (std::size_t i = 0; i < KeyColumns(table) && status.ok(); ++i) {
      status = find.BindInPlace(static_cast<int>(i) + 1, row[i]);
    }
    if (!status.ok()) return;
    const absl::StatusOr<bool> found = find.Step();
    find.Reset();
    status = found.status();
    if (found.ok() && !*found) differences.Lacks(row);
  });
  return status;
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
        Run(inserts_[static_cast<std::size_t>(DerivedTable::kLease)], RowOf(*state.leases().Find(slot.lease))));
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
  for (const std::int64_t number : state.rounds().changed()) {
    FULCRUM_RETURN_IF_ERROR(
        Run(inserts_[static_cast<std::size_t>(DerivedTable::kRound)], RowOf(*state.rounds().Find(number))));
  }
  return WriteFigures(state);
}

absl::Status DerivedTables::Rewrite(const CampaignState& state) {
  for (std::size_t i = 0; i < DerivedTableInfos().size(); ++i) {
    FULCRUM_RETURN_IF_ERROR(database_->Execute(absl::StrCat("DELETE FROM ", DerivedTableInfos()[i].name)));
    absl::Status status;
    VisitRows(state, static_cast<DerivedTable>(i), [&](const DerivedRow& row) {
      if (status.ok()) status = Run(inserts_[i], row);
    });
    FULCRUM_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> DerivedTables::FindDifferences(
    const CampaignState& state, const absl::flat_hash_set<std::string>& touched_later, std::size_t most) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < DerivedTableInfos().size(); ++i) {
    const DerivedTableInfo& info = DerivedTableInfos()[i];
    const auto table = static_cast<DerivedTable>(i);
    Differences differences(info.name, most, lines);
    FULCRUM_ASSIGN_OR_RETURN(const std::size_t known,
                             CompareRows(*database_, state, table, touched_later, differences));
    std::size_t expected = 0;
    VisitRows(state, table, [&](const DerivedRow& row) {
      if (!info.item_column || !touched_later.contains(row[*info.item_column])) ++expected;
    });
    // Keys are unique, so equal numbers mean that no row is missing.
    if (known == expected) continue;
    FULCRUM_RETURN_IF_ERROR(FindMissingRows(*database_, state, table, touched_later, differences));
  }
  return lines;
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
          {"life", LifeName(state.life())},
          {"life_reason", state.life_reason()},
          {"labels", absl::StrCat(totals.labels)},
          {"cost", NumberText(totals.cost)},
          {"label_budget", absl::StrCat(state.settings().label_budget)},
          {"cost_budget", NumberText(state.settings().cost_budget)},
          {"late_labels", absl::StrCat(totals.late_labels)},
          {"imported_labels", absl::StrCat(totals.imported)},
          {"skips", absl::StrCat(totals.skips)},
          {"expired_leases", absl::StrCat(totals.expired_leases)},
          {"models", absl::StrCat(state.rounds().model_count())}};
}

void VisitRows(const CampaignState& state, DerivedTable table, const std::function<void(const DerivedRow&)>& visit) {
  switch (table) {
    case DerivedTable::kItem:
      state.items().Visit([&](const Item& item) { visit(RowOf(item)); });
      return;
    case DerivedTable::kSlot:
      state.items().Visit([&](const Item& item) {
        for (const Slot& slot : item.slots) visit(RowOf(item, slot));
      });
      return;
    case DerivedTable::kLease:
      state.leases().Visit([&](const Lease& lease) { visit(RowOf(lease)); });
      return;
    case DerivedTable::kRound:
      state.rounds().Visit([&](const Round& round) { visit(RowOf(round)); });
      return;
    case DerivedTable::kFigure:
      for (const DerivedRow& row : FigureRows(state)) visit(row);
      return;
  }
}

}  // namespace fulcrum::storage
