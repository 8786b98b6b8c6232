// A transaction that is undone unless it was committed.
//
// Lives on the stack of the thread that uses the connection, and must go before the connection does.
// After Commit has returned OK, what was written survives the end of the process and of the power.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/sqlite_database.h"

namespace fulcrum::storage {

class SqliteTransaction {
 public:
  /// Takes the write lock at once, so that no later statement finds it taken. One at a time a connection.
  static absl::StatusOr<SqliteTransaction> BeginWrite(SqliteDatabase& database);
  /// A snapshot for reading, which later commits of the writer do not change.
  static absl::StatusOr<SqliteTransaction> BeginRead(SqliteDatabase& database);

  SqliteTransaction(SqliteTransaction&& other) noexcept;
  SqliteTransaction& operator=(SqliteTransaction&&) = delete;
  /// Rolls back unless Commit returned OK.
  ~SqliteTransaction();

  /// On an error nothing is committed, and the transaction is rolled back.
  absl::Status Commit();

 private:
  explicit SqliteTransaction(SqliteDatabase* database);

  void RollBack();

  SqliteDatabase* database_;  ///< null once committed, rolled back or moved from
};

}  // namespace fulcrum::storage
