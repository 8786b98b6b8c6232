// The tables of campaign.db, and how older ones become these.
//
// The version is SQLite's user_version; each migration is one transaction, so a killed one leaves the version before.
// Used at open by the one thread that opens.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/sqlite/sqlite.h"

namespace fulcrum::storage {

/// The version this program writes.
std::int64_t LatestSchemaVersion();
/// The oldest version that can be read without being upgraded: the log has no checksums there.
std::int64_t OldestReadableSchemaVersion();

/// The version of a campaign's database; 0 for an empty one. FailedPrecondition for a database that is not a
/// campaign's, or one that a newer program wrote.
absl::StatusOr<std::int64_t> CheckSchema(SqliteDatabase& database);

/// Brings the tables to `version`, which is the latest unless a test wants an older one.
absl::Status Migrate(SqliteDatabase& database, std::int64_t version = LatestSchemaVersion());

}  // namespace fulcrum::storage
