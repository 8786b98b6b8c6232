#include "storage/sqlite_transaction.h"

#include <utility>

#include "stages/core/status_macros.h"

namespace fulcrum::storage {

SqliteTransaction::SqliteTransaction(SqliteDatabase* database) : database_(database) {}

SqliteTransaction::SqliteTransaction(SqliteTransaction&& other) noexcept
    : database_(std::exchange(other.database_, nullptr)) {}

SqliteTransaction::~SqliteTransaction() {
  RollBack();
}

absl::StatusOr<SqliteTransaction> SqliteTransaction::BeginWrite(SqliteDatabase& database) {
  FULCRUM_RETURN_IF_ERROR(database.Execute("BEGIN IMMEDIATE"));
  return SqliteTransaction(&database);
}

absl::StatusOr<SqliteTransaction> SqliteTransaction::BeginRead(SqliteDatabase& database) {
  FULCRUM_RETURN_IF_ERROR(database.Execute("BEGIN DEFERRED"));
  SqliteTransaction transaction(&database);
  // BEGIN DEFERRED alone takes no snapshot; the first read does.
  FULCRUM_RETURN_IF_ERROR(database.QueryText("SELECT count(*) FROM sqlite_schema").status());
  return transaction;
}

absl::Status SqliteTransaction::Commit() {
  if (database_ == nullptr) return absl::FailedPreconditionError("this transaction has already ended");
  const absl::Status status = database_->Execute("COMMIT");
  if (status.ok()) {
    database_ = nullptr;
  } else {
    RollBack();
  }
  return status;
}

void SqliteTransaction::RollBack() {
  SqliteDatabase* database = std::exchange(database_, nullptr);
  // Some errors (a full disk, an I/O error) make SQLite roll back by itself. A failed rollback leaves
  // nothing to do: the next open undoes the transaction from the write-ahead log.
  if (database != nullptr && database->in_transaction()) database->Execute("ROLLBACK").IgnoreError();
}

}  // namespace fulcrum::storage
