#include "storage/sqlite_status.h"

#include <sqlite3.h>

#include <array>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace fulcrum::storage {
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
  // Asking for the same key twice is an answer callers act on, unlike the other broken rules.
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

}  // namespace fulcrum::storage
