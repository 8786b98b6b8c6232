// SQLite's result codes as absl::Status: the one place where they are converted.
//
// A message names the file, what was being done, SQLite's own words and its extended code, and what can
// be done about it. The extended code also travels as a payload, for callers that must tell a failed
// fsync (the process has to end) from a full disk (it can wait). Stateless and thread-safe.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

struct sqlite3;

namespace fulcrum::storage {

/// The status of a call that returned `code` on `database` (which may be null when opening it failed for want of
/// memory). `doing` completes "while ...".
absl::Status SqliteError(sqlite3* database, int code, absl::string_view doing);

/// The same where there is no connection to ask: the file and SQLite's words are given.
absl::Status SqliteError(absl::string_view file, int code, absl::string_view words, absl::string_view doing);

/// SQLite's extended result code behind a status made here; nothing for any other status.
std::optional<int> SqliteExtendedCode(const absl::Status& status);

}  // namespace fulcrum::storage
