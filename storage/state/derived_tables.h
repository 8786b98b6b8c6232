// The derived state as tables, for whoever looks at a campaign with SQL.
//
// Nothing decides by these tables; they follow the state when the store has a moment, and `fulcrum fsck` checks them
// against the log. Belongs to one connection, used by one thread at a time; writing happens in the caller's
// transaction.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/sqlite/sqlite.h"
#include "storage/state/campaign_state.h"

namespace fulcrum::storage {

class DerivedTables {
 public:
  /// The database must outlive it and be migrated.
  static absl::StatusOr<DerivedTables> Open(SqliteDatabase& database);

  /// The last event that the tables include; 0 where they are empty.
  absl::StatusOr<std::int64_t> Through();
  /// Brings the rows of some items up to date. Until Finish the tables say that they go no further than before, which
  /// is true of all items that were not touched since then.
  absl::Status WriteItems(const CampaignState& state, const std::vector<const Item*>& items);
  /// Once all that changed is written: the rest, and how far the tables go.
  absl::Status Finish(const CampaignState& state);
  /// Empties the tables and writes every row.
  absl::Status Rewrite(const CampaignState& state);
  /// What differs between the tables and the state, a line each, at most `most`. The state is that of the event which
  /// the tables go up to; items that were touched by later events are left out, since theirs may go further.
  absl::StatusOr<std::vector<std::string>> FindDifferences(const CampaignState& state,
                                                           const absl::flat_hash_set<std::string>& touched_later = {},
                                                           std::size_t most = 10);

 private:
  explicit DerivedTables(SqliteDatabase& database) : database_(&database) {}

  absl::Status WriteItem(const CampaignState& state, const Item& item);
  absl::Status WriteFigures(const CampaignState& state);
  absl::Status Run(SqliteStatement& statement, const std::vector<std::string>& values);

  SqliteDatabase* database_;
  std::vector<SqliteStatement> inserts_;  ///< a table each, in the order of the tables
  std::vector<SqliteStatement> forget_item_;
};

// The rows of the derived tables, made from the state: the one place that says what is in a column.
//
// Values are text; SQLite's column types turn numbers into numbers. Stateless and thread-safe.

using DerivedRow = std::vector<std::string>;

/// Tables in the order of DerivedTableInfos.
enum class DerivedTable : std::size_t { kItem, kSlot, kLease, kRound, kFigure };
struct DerivedTableInfo {
  const char* name;
  std::size_t columns;
  std::optional<std::size_t> item_column = {};  ///< where its rows are about an item
};
const std::vector<DerivedTableInfo>& DerivedTableInfos();

DerivedRow RowOf(const Item& item);
DerivedRow RowOf(const Item& item, const Slot& slot);
DerivedRow RowOf(const Lease& lease);
DerivedRow RowOf(const Round& round);
/// Name and value: how far the tables go, and the campaign's totals.
std::vector<DerivedRow> FigureRows(const CampaignState& state);

/// Calls `visit` for every row that a table should have, in any order.
void VisitRows(const CampaignState& state, DerivedTable table, const std::function<void(const DerivedRow&)>& visit);

}  // namespace fulcrum::storage
