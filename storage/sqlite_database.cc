#include "storage/sqlite_database.h"

#include <sqlite3.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"
#include "storage/sqlite_status.h"

namespace fulcrum::storage {
namespace {

/// SQLite's authorizer, asked while a statement is compiled: `first` is the table it touches.
int RefuseChangesTo(void* table, int action, const char* first, const char* second, const char*, const char*) {
  const auto names_table = [&](const char* name) {
    return name != nullptr && sqlite3_stricmp(name, static_cast<const char*>(table)) == 0;
  };
  switch (action) {
    case SQLITE_UPDATE:
    case SQLITE_DELETE:
    case SQLITE_DROP_TABLE:
      return names_table(first) ? SQLITE_DENY : SQLITE_OK;
    case SQLITE_DROP_TRIGGER:
    case SQLITE_ALTER_TABLE:
      return names_table(second) ? SQLITE_DENY : SQLITE_OK;
    default:
      return SQLITE_OK;
  }
}

}  // namespace

void SqliteDatabase::Close::operator()(sqlite3* database) const {
  // _v2: a statement that outlives the connection by mistake keeps it open instead of leaking it.
  sqlite3_close_v2(database);
}

SqliteDatabase::SqliteDatabase(sqlite3* database) : database_(database) {}

absl::StatusOr<SqliteDatabase> SqliteDatabase::Open(const std::string& path, const SqliteOpenOptions& options) {
  const int mode = options.read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &handle, mode | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
  // Even a failed open leaves a handle that has to be closed.
  SqliteDatabase database(handle);
  if (code != SQLITE_OK) {
    return SqliteError(path, code, handle == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(handle), "opening it");
  }
  FULCRUM_RETURN_IF_ERROR(database.Configure(options));
  return database;
}

absl::Status SqliteDatabase::Configure(const SqliteOpenOptions& options) {
  sqlite3_busy_timeout(database_.get(), static_cast<int>(options.busy_timeout.count()));
  // A file from elsewhere may carry a schema that does things; these keep it to holding data.
  sqlite3_db_config(database_.get(), SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  FULCRUM_RETURN_IF_ERROR(Execute("PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA foreign_keys=ON;"));
  // Before the first write: a damaged file is evidence and stays as it is.
  if (options.check_integrity) FULCRUM_RETURN_IF_ERROR(CheckIntegrity());
  if (!options.read_only) return MakeDurable(options.write_ahead_log ? "wal" : "delete");
  // Only the connection that writes may move the write-ahead log into the database.
  sqlite3_db_config(database_.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  return absl::OkStatus();
}

absl::Status SqliteDatabase::CheckIntegrity() {
  FULCRUM_ASSIGN_OR_RETURN(const std::string finding, QueryText("PRAGMA quick_check(1)"));
  if (finding == "ok") return absl::OkStatus();
  return SqliteError(database_.get(), SQLITE_CORRUPT, absl::StrCat("checking it at open, which found: ", finding));
}

absl::Status SqliteDatabase::MakeDurable(const std::string& journal_mode) {
  FULCRUM_RETURN_IF_ERROR(Execute(absl::StrCat("PRAGMA journal_mode=", journal_mode, "; PRAGMA synchronous=FULL;")));
  FULCRUM_RETURN_IF_ERROR(RequirePragma("journal_mode", journal_mode,
                                        "put the database on a local disk that is not read-only; "
                                        "network file systems do not work"));
  return RequirePragma("synchronous", "2", "commits would not survive a power loss");
}

absl::Status SqliteDatabase::RequirePragma(const std::string& name, const std::string& wanted, const std::string& why) {
  FULCRUM_ASSIGN_OR_RETURN(const std::string value, QueryText(absl::StrCat("PRAGMA ", name)));
  if (value == wanted) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(sqlite3_db_filename(database_.get(), "main"), ": SQLite runs with ",
                                                    name, "=", value, " although ", wanted, " was asked for: ", why,
                                                    "."));
}

absl::StatusOr<SqliteStatement> SqliteDatabase::Prepare(const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(database_.get(), sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) return SqliteError(database_.get(), code, absl::StrCat("preparing: ", sql));
  if (statement == nullptr) return absl::InvalidArgumentError("an empty SQL statement was to be prepared");
  return SqliteStatement(statement);
}

absl::Status SqliteDatabase::Execute(const std::string& sql) {
  const int code = sqlite3_exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : SqliteError(database_.get(), code, absl::StrCat("running: ", sql));
}

absl::StatusOr<std::string> SqliteDatabase::QueryText(const std::string& sql) {
  FULCRUM_ASSIGN_OR_RETURN(SqliteStatement statement, Prepare(sql));
  FULCRUM_ASSIGN_OR_RETURN(const bool has_row, statement.Step());
  if (!has_row) return absl::NotFoundError(absl::StrCat("no row came from: ", sql));
  return std::string(statement.ColumnText(0));
}

void SqliteDatabase::AllowOnlyAppendingTo(const char* table) {
  sqlite3_db_config(database_.get(), SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_set_authorizer(database_.get(), RefuseChangesTo, const_cast<char*>(table));
}

absl::Status SqliteDatabase::CopyTo(SqliteDatabase& destination) {
  sqlite3_backup* backup = sqlite3_backup_init(destination.database_.get(), "main", database_.get(), "main");
  if (backup == nullptr) {
    return SqliteError(destination.database_.get(), sqlite3_errcode(destination.database_.get()), "preparing the copy");
  }
  // All pages in one step: what is read is one snapshot, and in WAL mode reading holds nobody up.
  const int code = sqlite3_backup_step(backup, -1);
  const int finish = sqlite3_backup_finish(backup);
  if (code == SQLITE_DONE && finish == SQLITE_OK) return absl::OkStatus();
  return SqliteError(destination.database_.get(), code == SQLITE_DONE ? finish : code,
                     absl::StrCat("copying ", path(), " to it"));
}

std::string SqliteDatabase::path() const {
  const char* name = sqlite3_db_filename(database_.get(), "main");
  return name == nullptr ? "" : name;
}

std::int64_t SqliteDatabase::last_insert_row_id() const {
  return sqlite3_last_insert_rowid(database_.get());
}

std::int64_t SqliteDatabase::changes() const {
  return sqlite3_changes64(database_.get());
}

bool SqliteDatabase::in_transaction() const {
  return sqlite3_get_autocommit(database_.get()) == 0;
}

}  // namespace fulcrum::storage
