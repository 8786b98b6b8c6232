// Runs a group of operations in one transaction and commits it, durably.
//
// An operation that is refused leaves no trace and disturbs none of the others. One whose writing fails is taken out,
// the rest of its group is undone and run again without it. A full disk or a lock held elsewhere fails the group, and
// the store goes on; any other error of the disk ends it: after a failed fsync nobody knows what is on disk.
// Belongs to the thread that writes.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "storage/commit_queue.h"
#include "storage/ledger.h"
#include "storage/sqlite_database.h"

namespace fulcrum::storage {

class GroupCommit {
 public:
  /// Both must outlive it.
  GroupCommit(SqliteDatabase& database, Ledger& ledger);

  /// Fills `results`, one for each operation; answers nobody. Not OK where the store must end.
  absl::Status Run(const OperationGroup& group, std::vector<absl::Status>& results);

 private:
  enum class Outcome { kCommitted, kTryAgain, kFailed };

  absl::StatusOr<Outcome> TryOnce(const OperationGroup& group, std::vector<absl::Status>& results);
  /// The operation whose writing failed, if any.
  std::optional<std::size_t> RunOperations(const OperationGroup& group, std::vector<absl::Status>& results);
  /// After a rollback: the state as the log has it. Not OK where `cause` or the log forbids to go on.
  absl::Status Recover(const absl::Status& cause);

  SqliteDatabase& database_;
  Ledger& ledger_;
  std::vector<bool> taken_out_;  ///< operations of the group that failed while writing
};

}  // namespace fulcrum::storage
