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
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct sqlite3_stmt;

namespace fulcrum::storage {

// A prepared SQL statement.
//
// Belongs to the connection that made it (SqliteDatabase::Prepare) and must go before it; like the
// connection it is used by one thread at a time. Prepare once, then bind, step and reset many times.

class SqliteStatement {
 public:
  /// Takes over a statement prepared elsewhere; use SqliteDatabase::Prepare.
  explicit SqliteStatement(sqlite3_stmt* statement);

  /// Parameters count from 1, as in SQL (?1, ?2, ...). Bind copies text and bytes. A parameter that was
  /// never bound, or unbound by ClearBindings, is NULL.
  absl::Status Bind(int parameter, std::int64_t value);
  absl::Status Bind(int parameter, double value);
  absl::Status Bind(int parameter, std::string_view text);
  absl::Status Bind(int parameter, std::span<const std::byte> bytes);
  absl::Status BindNull(int parameter);
  /// Without a copy: the text must stay where it is until the statement has run.
  absl::Status BindInPlace(int parameter, std::string_view text);
  void ClearBindings();

  /// Advances to the next row: true when there is one, false at the end. After the end or an error, Reset
  /// before stepping again.
  absl::StatusOr<bool> Step();
  /// Steps to the end, dropping rows, and resets: for statements that change something.
  absl::Status Run();
  /// Back to the start; bindings stay. Until then the statement may hold a read transaction open.
  void Reset();

  /// Columns of the current row count from 0. Text and bytes are valid until the next Step or Reset.
  bool ColumnIsNull(int column) const;
  std::int64_t ColumnInt64(int column) const;
  double ColumnDouble(int column) const;
  std::string_view ColumnText(int column) const;
  std::span<const std::byte> ColumnBytes(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };

  absl::Status BindResult(int code, int parameter) const;

  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

}  // namespace fulcrum::storage

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
  /// DataLoss for an empty file with a write-ahead log next to it, which SQLite would delete.
  static absl::StatusOr<SqliteDatabase> Open(const std::string& path, const SqliteOpenOptions& options = {});

  /// Compiles one statement. It must not outlive the connection.
  absl::StatusOr<SqliteStatement> Prepare(const std::string& sql);
  /// Runs any number of statements, dropping rows: schemas, pragmas.
  absl::Status Execute(const std::string& sql);
  /// The first column of the only row of `sql`, as text; NOT_FOUND if there is no row.
  absl::StatusOr<std::string> QueryText(const std::string& sql);

  /// For the one writer of an append-only table: from now on this connection is refused any statement that would change
  /// or remove its rows, or the table itself. In return no triggers run here: those that hold all others to the
  /// same cost more than the insert. `table` must outlive the connection. Call it before preparing statements.
  void AllowOnlyAppendingTo(const char* table);

  /// Replaces what `destination` holds by a snapshot of this database, while others go on reading and writing it.
  absl::Status CopyTo(SqliteDatabase& destination);

  /// Moves the whole write-ahead log into the database and empties it: the file alone is complete then. Unavailable if
  /// a reader needs what is in the log for longer than the busy timeout.
  absl::Status Checkpoint();

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

struct sqlite3;

namespace fulcrum::storage {

// SQLite's result codes as absl::Status: the one place where they are converted.
//
// A message names the file, what was being done, SQLite's own words and its extended code, and what can
// be done about it. The extended code also travels as a payload, for callers that must tell a failed
// fsync (the process has to end) from a full disk (it can wait). Stateless and thread-safe.

/// The status of a call that returned `code` on `database` (which may be null when opening it failed for want of
/// memory). `doing` completes "while ...".
absl::Status SqliteError(sqlite3* database, int code, absl::string_view doing);

/// The same where there is no connection to ask: the file and SQLite's words are given.
absl::Status SqliteError(absl::string_view file, int code, absl::string_view words, absl::string_view doing);

/// SQLite's extended result code behind a status made here; nothing for any other status.
std::optional<int> SqliteExtendedCode(const absl::Status& status);

// A transaction that is undone unless it was committed.
//
// Lives on the stack of the thread that uses the connection, and must go before the connection does.
// After Commit has returned OK, what was written survives the end of the process and of the power.

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
