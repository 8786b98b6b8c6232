// The tables of campaign.db, and how older ones are upgraded.
//
// The version is SQLite's user_version. Each migration is one transaction, so that an interrupted one leaves the
// previous version.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/sqlite/sqlite.h"

namespace fulcrum::storage {

/// The version that this program writes.
std::int64_t LatestSchemaVersion();
/// The oldest version that can be read without being upgraded: the log has no checksums there.
std::int64_t OldestReadableSchemaVersion();

/// Whether a database of this version has the tables of a checkpoint (storage/checkpoint/checkpoint.h).
bool HasCheckpoint(std::int64_t version);

/// The version of a campaign's database; 0 for an empty one. FailedPrecondition for a database that is not a
/// campaign's, or one that a newer program wrote.
absl::StatusOr<std::int64_t> CheckSchema(SqliteDatabase& database);

/// Upgrades the tables to `version`; tests use older ones than the latest.
absl::Status Migrate(SqliteDatabase& database, std::int64_t version = LatestSchemaVersion());

}  // namespace fulcrum::storage
