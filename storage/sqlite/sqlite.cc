#include "storage/sqlite/sqlite.h"

#include <sqlite3.h>

#include <array>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"

namespace fulcrum::storage {

void SqliteStatement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

SqliteStatement::SqliteStatement(sqlite3_stmt* statement) : statement_(statement) {}

absl::Status SqliteStatement::BindResult(int code, int parameter) const {
  if (code == SQLITE_OK) return absl::OkStatus();
  return SqliteError(sqlite3_db_handle(statement_.get()), code,
                     absl::StrCat("binding parameter ", parameter, " of: ", sqlite3_sql(statement_.get())));
}

absl::Status SqliteStatement::Bind(int parameter, std::int64_t value) {
  return BindResult(sqlite3_bind_int64(statement_.get(), parameter, value), parameter);
}

absl::Status SqliteStatement::Bind(int parameter, double value) {
  return BindResult(sqlite3_bind_double(statement_.get(), parameter, value), parameter);
}

absl::Status SqliteStatement::Bind(int parameter, std::string_view text) {
  // SQLite takes a null pointer for NULL, and an empty view may have one.
  const char* data = text.data() == nullptr ? "" : text.data();
  return BindResult(sqlite3_bind_text64(statement_.get(), parameter, data, text.size(), SQLITE_TRANSIENT, SQLITE_UTF8),
                    parameter);
}

absl::Status SqliteStatement::Bind(int parameter, std::span<const std::byte> bytes) {
  const void* data = bytes.data() == nullptr ? static_cast<const void*>("") : bytes.data();
  return BindResult(sqlite3_bind_blob64(statement_.get(), parameter, data, bytes.size(), SQLITE_TRANSIENT), parameter);
}

absl::Status SqliteStatement::BindInPlace(int parameter, std::string_view text) {
  const char* data = text.data() == nullptr ? "" : text.data();
  return BindResult(sqlite3_bind_text64(statement_.get(), parameter, data, text.size(), SQLITE_STATIC, SQLITE_UTF8),
                    parameter);
}

absl::Status SqliteStatement::BindNull(int parameter) {
  return BindResult(sqlite3_bind_null(statement_.get(), parameter), parameter);
}

void SqliteStatement::ClearBindings() {
  sqlite3_clear_bindings(statement_.get());
}

absl::StatusOr<bool> SqliteStatement::Step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return SqliteError(sqlite3_db_handle(statement_.get()), code,
                     absl::StrCat("running: ", sqlite3_sql(statement_.get())));
}

absl::Status SqliteStatement::Run() {
  const absl::Cleanup reset = [this] { Reset(); };
  bool has_row = true;
  while (has_row) {
    FULCRUM_ASSIGN_OR_RETURN(has_row, Step());
  }
  return absl::OkStatus();
}

void SqliteStatement::Reset() {
  // The code it returns repeats the error of the last step, which has been reported.
  sqlite3_reset(statement_.get());
}

bool SqliteStatement::ColumnIsNull(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

std::int64_t SqliteStatement::ColumnInt64(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

double SqliteStatement::ColumnDouble(int column) const {
  return sqlite3_column_double(statement_.get(), column);
}

std::string_view SqliteStatement::ColumnText(int column) const {
  // The order matters: asking for the text may convert the value, and with it its size.
  const unsigned char* text = sqlite3_column_text(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  if (text == nullptr) return {};
  return {reinterpret_cast<const char*>(text), static_cast<std::size_t>(size)};
}

std::span<const std::byte> SqliteStatement::ColumnBytes(int column) const {
  const void* bytes = sqlite3_column_blob(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  if (bytes == nullptr) return {};
  return {static_cast<const std::byte*>(bytes), static_cast<std::size_t>(size)};
}

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

/// SQLite deletes the write-ahead log of an empty database, even if it is opened for reading only.
absl::Status RefuseToDropWriteAheadLog(const std::string& path) {
  std::error_code error;
  const std::uintmax_t database_bytes = std::filesystem::file_size(path, error);
  if (error || database_bytes > 0) return absl::OkStatus();
  const std::uintmax_t log_bytes = std::filesystem::file_size(path + "-wal", error);
  if (error || log_bytes == 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path, " is empty, but ", path, "-wal holds ", log_bytes,
                                          " bytes of committed data. It was not opened, because SQLite would delete "
                                          "them. Keep a copy of both files, then rebuild the campaign or restore a "
                                          "backup."));
}

}  // namespace

void SqliteDatabase::Close::operator()(sqlite3* database) const {
  // _v2: a statement that outlives the connection by mistake keeps it open instead of leaking it.
  sqlite3_close_v2(database);
}

SqliteDatabase::SqliteDatabase(sqlite3* database) : database_(database) {}

absl::StatusOr<SqliteDatabase> SqliteDatabase::Open(const std::string& path, const SqliteOpenOptions& options) {
  FULCRUM_RETURN_IF_ERROR(RefuseToDropWriteAheadLog(path));
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
  // The schema of a file from elsewhere may contain code; these settings prevent that it runs.
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
  // All pages in one step, which is one snapshot; in WAL mode readers do not block the writer.
  const int code = sqlite3_backup_step(backup, -1);
  const int finish = sqlite3_backup_finish(backup);
  if (code == SQLITE_DONE && finish == SQLITE_OK) return absl::OkStatus();
  return SqliteError(destination.database_.get(), code == SQLITE_DONE ? finish : code,
                     absl::StrCat("copying ", path(), " to it"));
}

absl::Status SqliteDatabase::Checkpoint() {
  const int code = sqlite3_wal_checkpoint_v2(database_.get(), "main", SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus()
                           : SqliteError(database_.get(), code, "moving the write-ahead log into it");
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

namespace {

constexpr absl::string_view kPayload = "fulcrum.storage/sqlite_extended_code";

struct Conversion {
  int primary_code;
  absl::StatusCode status_code;
  absl::string_view advice;
};

constexpr std::array kConversions = {
    Conversion{SQLITE_BUSY, absl::StatusCode::kUnavailable,
               "another process holds the database; wait for it to finish, or stop it, and try again"},
    Conversion{SQLITE_LOCKED, absl::StatusCode::kUnavailable, "the same table is in use; try again"},
    Conversion{SQLITE_FULL, absl::StatusCode::kResourceExhausted,
               "the disk is full; free some space and try again, nothing was half written"},
    Conversion{SQLITE_NOMEM, absl::StatusCode::kResourceExhausted, "memory ran out; try again when there is more"},
    Conversion{SQLITE_TOOBIG, absl::StatusCode::kInvalidArgument, "a value is larger than SQLite takes"},
    Conversion{SQLITE_CORRUPT, absl::StatusCode::kDataLoss,
               "the file is damaged; restore it from a backup and keep the damaged one for inspection"},
    Conversion{SQLITE_NOTADB, absl::StatusCode::kDataLoss,
               "the file is not a SQLite database; check the path, or restore it from a backup"},
    Conversion{SQLITE_CANTOPEN, absl::StatusCode::kNotFound,
               "check that the folder and the file exist and that this user may read them"},
    Conversion{SQLITE_PERM, absl::StatusCode::kPermissionDenied, "check the permissions of the file"},
    Conversion{SQLITE_READONLY, absl::StatusCode::kPermissionDenied,
               "check the permissions of the file and its folder, or that it was opened for writing"},
    Conversion{SQLITE_CONSTRAINT, absl::StatusCode::kFailedPrecondition, "the change breaks a rule of the schema"},
    Conversion{SQLITE_INTERRUPT, absl::StatusCode::kCancelled, "it was interrupted on request"},
    Conversion{SQLITE_IOERR, absl::StatusCode::kInternal,
               "the disk reported an error; look at the system's log before going on"},
};

constexpr Conversion kOtherwise{SQLITE_ERROR, absl::StatusCode::kInternal, "this is a fault in Fulcrum; report it"};

Conversion Convert(int extended_code) {
  // Callers act on a duplicate key, unlike on other violated constraints.
  if (extended_code == SQLITE_CONSTRAINT_UNIQUE || extended_code == SQLITE_CONSTRAINT_PRIMARYKEY) {
    return {SQLITE_CONSTRAINT, absl::StatusCode::kAlreadyExists, "a row with this key is already there"};
  }
  const int primary_code = extended_code & 0xff;
  for (const Conversion& conversion : kConversions) {
    if (conversion.primary_code == primary_code) return conversion;
  }
  return kOtherwise;
}

absl::string_view FileOf(sqlite3* database) {
  const char* name = database == nullptr ? nullptr : sqlite3_db_filename(database, "main");
  return name == nullptr || *name == '\0' ? absl::string_view("a database in memory") : absl::string_view(name);
}

}  // namespace

absl::Status SqliteError(absl::string_view file, int code, absl::string_view words, absl::string_view doing) {
  const Conversion conversion = Convert(code);
  absl::Status status(conversion.status_code, absl::StrCat(file, ": ", words, " while ", doing, " (SQLite code ", code,
                                                           ", ", sqlite3_errstr(code), "): ", conversion.advice, "."));
  status.SetPayload(kPayload, absl::Cord(absl::StrCat(code)));
  return status;
}

absl::Status SqliteError(sqlite3* database, int code, absl::string_view doing) {
  const absl::string_view words = database == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(database);
  return SqliteError(FileOf(database), code, words, doing);
}

std::optional<int> SqliteExtendedCode(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayload);
  int code = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(static_cast<std::string>(*payload), &code)) return std::nullopt;
  return code;
}

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
