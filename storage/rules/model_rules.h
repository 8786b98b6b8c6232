// Rules for the predictions of model processes: when a round waits for them, who makes them, and what is stored.
//
// Run by the store like the lease rules. Leases are fenced, predictions are not: those of a process whose lease has
// expired count if no others have arrived.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/state/ledger.h"
#include "storage/state/tables.h"

namespace fulcrum::storage {

struct OpenModelTaskRequest {
  std::int64_t round = 0;  ///< one more than the last
  std::int64_t rows = 0;   ///< of the pool
};
/// The task of a round; an open one, and one with predictions for as many rows, is returned as it is.
absl::StatusOr<ModelTask> OpenModelTask(Ledger& ledger, const OpenModelTaskRequest& request);

struct CloseModelTaskRequest {
  std::int64_t round = 0;
  std::chrono::milliseconds timeout{0};  ///< how long an open task is waited for
  std::string reason = {};
};
/// If the time of an open task is up: the round does without predictions. False if it is not, or not any more.
absl::StatusOr<bool> CloseModelTask(Ledger& ledger, const CloseModelTaskRequest& request);

struct AcquireModelRequest {
  std::string process = {};
  std::string request_id = {};
  std::int64_t task = 0;  ///< the one that can be handed out now
  std::chrono::milliseconds lease_time{0};
};
struct AcquireModelAnswer {
  std::int64_t lease = 0;  ///< 0 if there is nothing to do now; nothing was recorded
  std::int64_t epoch = 0;
  Time expires_at = {};
  ModelTask task = {};
};
/// Leases the task, unless another process has it.
absl::StatusOr<AcquireModelAnswer> AcquireModelTask(Ledger& ledger, const AcquireModelRequest& request);

struct ModelLeaseRequest {
  std::string process = {};
  std::string request_id = {};  ///< may be empty
  std::int64_t lease = 0;
  std::int64_t epoch = 0;
  std::chrono::milliseconds lease_time{0};  ///< to renew it for
};
/// A full lease time from now. Aborted for a lease that has ended, PermissionDenied for that of another process,
/// InvalidArgument for one that never existed.
absl::StatusOr<Time> RenewModelLease(Ledger& ledger, const ModelLeaseRequest& request);
/// Returns the sequence. Errors as RenewModelLease.
absl::StatusOr<std::int64_t> ReleaseModelLease(Ledger& ledger, const ModelLeaseRequest& request);

/// The task that predictions under this lease, live or not, are for; nothing if it is over. Errors as RenewModelLease,
/// but none for a lease that has ended.
absl::StatusOr<std::optional<ModelTask>> FindModelTask(Ledger& ledger, const ModelLeaseRequest& request);

struct StorePredictionsRequest {
  ModelLeaseRequest lease = {};
  std::string file = {};               ///< complete and synced
  std::string checksum = {};           ///< of the file
  std::string features_file = {};      ///< new features of the rows, complete and synced; empty: none
  std::string features_checksum = {};  ///< of that file; empty: there are no features
};
struct StorePredictionsAnswer {
  std::int64_t sequence = 0;
  bool late = false;
  bool repeated = false;  ///< the request took effect before
};
/// Aborted if the task is over; AlreadyExists if the id was used with other predictions.
absl::StatusOr<StorePredictionsAnswer> StorePredictions(Ledger& ledger, const StorePredictionsRequest& request);

/// Ends the lease of the model task if its time is up.
absl::Status ExpireDueModelLease(Ledger& ledger);

}  // namespace fulcrum::storage
