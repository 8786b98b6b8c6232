// The derived state as tables, for whoever looks at a campaign with SQL.
//
// Nothing decides by these tables; they follow the state when the store has a moment, and `fulcrum fsck` checks them
// against the log. Belongs to one connection, used by one thread at a time; writing happens in the caller's
// transaction.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/campaign_state.h"
#include "storage/sqlite_database.h"

namespace fulcrum::storage {

class DerivedTables {
 public:
  /// The database must outlive it and be migrated.
  static absl::StatusOr<DerivedTables> Open(SqliteDatabase& database);

  /// The last event that the tables include; 0 where they are empty.
  absl::StatusOr<std::int64_t> Through();
  /// Brings the rows of what changed up to date.
  absl::Status Write(const CampaignState& state, const CampaignState::Changes& changes);
  /// Empties the tables and writes every row.
  absl::Status Rewrite(const CampaignState& state);
  /// What differs between the tables and the state, a line each, at most `most`.
  absl::StatusOr<std::vector<std::string>> FindDifferences(const CampaignState& state, std::size_t most = 10);

 private:
  explicit DerivedTables(SqliteDatabase& database) : database_(&database) {}

  absl::Status WriteItem(const CampaignState& state, const Item& item);
  absl::Status WriteFigures(const CampaignState& state);
  absl::Status Run(SqliteStatement& statement, const std::vector<std::string>& values);

  SqliteDatabase* database_;
  std::vector<SqliteStatement> inserts_;  ///< a table each, in the order of the tables
  std::vector<SqliteStatement> forget_item_;
};

}  // namespace fulcrum::storage
