// A connection to a SQLite database that loses nothing once a commit has returned.
//
// Opened for writing it is in WAL mode with full sync, and both are checked, because SQLite answers a
// request that it cannot fulfil with another mode instead of an error. The file is checked at open, so
// that damage is found before anything builds on it.
//
// One thread at a time may use a connection and its statements. Exactly one connection in one process may
// be open for writing (two can corrupt a WAL database before SQLite 3.51.3); any number may read meanwhile.
// Never put the file on a network file system: its locks do not hold.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/sqlite_statement.h"

struct sqlite3;

namespace fulcrum::storage {

struct SqliteOpenOptions {
  bool read_only = false;  ///< otherwise the file is created where it is absent
  /// How long a statement waits for another connection's lock before it fails with UNAVAILABLE.
  std::chrono::milliseconds busy_timeout{5000};
  /// Reads the whole file once (PRAGMA quick_check).
  bool check_integrity = true;
  /// Off for a database that is to be one file without companions: a backup.
  bool write_ahead_log = true;
};

class SqliteDatabase {
 public:
  static absl::StatusOr<SqliteDatabase> Open(const std::string& path, const SqliteOpenOptions& options = {});

  /// Compiles one statement. It must not outlive the connection.
  absl::StatusOr<SqliteStatement> Prepare(const std::string& sql);
  /// Runs any number of statements, dropping rows: schemas, pragmas.
  absl::Status Execute(const std::string& sql);
  /// The first column of the only row of `sql`, as text; NOT_FOUND where there is no row.
  absl::StatusOr<std::string> QueryText(const std::string& sql);

  /// For the one writer of an append-only table: from now on this connection is refused any statement that would change
  /// or remove its rows, or the table itself. In return no triggers run here: those that hold everybody else to the
  /// same cost more than the insert. `table` must outlive the connection. Call it before preparing statements.
  void AllowOnlyAppendingTo(const char* table);

  /// Replaces what `destination` holds by a snapshot of this database, while others go on reading and writing it.
  absl::Status CopyTo(SqliteDatabase& destination);

  /// The file, as SQLite knows it.
  std::string path() const;
  std::int64_t last_insert_row_id() const;
  /// Rows that the last INSERT, UPDATE or DELETE changed.
  std::int64_t changes() const;
  bool in_transaction() const;

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };

  explicit SqliteDatabase(sqlite3* database);

  absl::Status Configure(const SqliteOpenOptions& options);
  absl::Status CheckIntegrity();
  absl::Status MakeDurable(const std::string& journal_mode);
  absl::Status RequirePragma(const std::string& name, const std::string& wanted, const std::string& why);

  std::unique_ptr<sqlite3, Close> database_;
};

}  // namespace fulcrum::storage
