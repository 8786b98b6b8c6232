#include "storage/group_commit.h"

#include <algorithm>

#include "stages/core/status_macros.h"
#include "storage/lease_rules.h"
#include "storage/sqlite_status.h"
#include "storage/sqlite_transaction.h"

namespace fulcrum::storage {
namespace {

/// Whether trying again later may help, because nothing is wrong with what is on disk.
bool MayPass(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsUnavailable(status);
}

/// Whether only the operation itself is to blame: a value SQLite does not take, an event that the state refuses.
bool IsOwnFault(const absl::Status& status) {
  if (!SqliteExtendedCode(status).has_value()) return true;
  return absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status) || absl::IsAlreadyExists(status);
}

}  // namespace

GroupCommit::GroupCommit(SqliteDatabase& database, Ledger& ledger) : database_(database), ledger_(ledger) {}

absl::Status GroupCommit::Run(const OperationGroup& group, std::vector<absl::Status>& results) {
  results.assign(group.size(), absl::OkStatus());
  taken_out_.assign(group.size(), false);
  for (;;) {
    const absl::StatusOr<Outcome> outcome = TryOnce(group, results);
    if (!outcome.ok()) {
      std::fill(results.begin(), results.end(), outcome.status());
      return outcome.status();
    }
    if (*outcome != Outcome::kTryAgain) return absl::OkStatus();
  }
}

absl::StatusOr<GroupCommit::Outcome> GroupCommit::TryOnce(const OperationGroup& group,
                                                          std::vector<absl::Status>& results) {
  absl::Status failure;
  std::optional<std::size_t> failed;
  {
    auto transaction = SqliteTransaction::BeginWrite(database_);
    failure = transaction.status();
    if (failure.ok()) {
      const std::int64_t before = ledger_.state().last_sequence();
      failed = RunOperations(group, results);
      failure = failed.has_value() ? results[*failed] : absl::OkStatus();
      // Nothing written, nothing to sync: questions and refusals cost no commit.
      if (failure.ok() && ledger_.state().last_sequence() == before) return Outcome::kCommitted;
      if (failure.ok()) failure = transaction->Commit();
      if (failure.ok()) return Outcome::kCommitted;
    }
  }
  FULCRUM_RETURN_IF_ERROR(Recover(failure));
  if (failed.has_value() && IsOwnFault(failure)) {
    taken_out_[*failed] = true;
    return Outcome::kTryAgain;
  }
  std::fill(results.begin(), results.end(), failure);
  return Outcome::kFailed;
}

std::optional<std::size_t> GroupCommit::RunOperations(const OperationGroup& group, std::vector<absl::Status>& results) {
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (taken_out_[i]) continue;
    results[i] = ExpireDueLeases(ledger_);
    if (results[i].ok()) results[i] = group[i]->Run(ledger_);
    if (ledger_.broken()) return i;
  }
  return std::nullopt;
}

absl::Status GroupCommit::Recover(const absl::Status& cause) {
  if (!MayPass(cause) && !IsOwnFault(cause)) return cause;
  return ledger_.Reload();
}

}  // namespace fulcrum::storage
