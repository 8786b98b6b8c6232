// A prepared SQL statement.
//
// Belongs to the connection that made it (SqliteDatabase::Prepare) and must go before it; like the
// connection it is used by one thread at a time. Prepare once, then bind, step and reset many times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct sqlite3_stmt;

namespace fulcrum::storage {

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
