#include "storage/sqlite_statement.h"

#include <sqlite3.h>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"
#include "storage/sqlite_status.h"

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

}  // namespace fulcrum::storage
