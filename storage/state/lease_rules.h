// Leases: who may work on what, and until when.
//
// Functions that the store runs on its writing thread, one at a time, against the state at that point of the log. Each
// answers OK with what it did, or says why not and leaves no trace. Leases whose time is up have been ended before any
// of them runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/state/ledger.h"

namespace fulcrum::storage {

struct AcquireRequest {
  std::string annotator = {};
  std::string request_id = {};
  std::int64_t most = 1;  ///< leases wanted, at most
  /// What the answer may take, and what an item takes of it. The first item is granted whatever it takes.
  std::size_t most_bytes = 0;  ///< 0: no limit
  std::function<std::size_t(const std::string& item)> bytes_of = {};
};

struct GrantedLease {
  std::int64_t lease = 0;
  std::int64_t epoch = 0;
  std::string item = {};
  std::int64_t slot = 0;
  std::int64_t round = 0;
  Time expires_at = {};

  bool operator==(const GrantedLease&) const = default;
};

struct AcquireAnswer {
  std::vector<GrantedLease> leases = {};  ///< empty where there is nothing to do now: nothing was recorded
  bool repeated = false;                  ///< the answer to the same request from before
};

/// Leases open slots that this annotator may answer, the best items first. ResourceExhausted once the label or cost
/// budget is spent; an empty answer where leases that are out would spend the rest of it.
absl::StatusOr<AcquireAnswer> AcquireTasks(Ledger& ledger, const AcquireRequest& request);

struct SessionRequest {
  std::string annotator = {};
  std::string session = {};  ///< the ids of the requests of a session begin with this
};
/// The live leases of an annotator that were granted to requests of a session, in the order in which they were granted.
absl::StatusOr<std::vector<GrantedLease>> FindSessionLeases(Ledger& ledger, const SessionRequest& request);

struct LeaseRequest {
  std::string annotator = {};
  std::string request_id = {};  ///< may be empty: renewing twice does no harm, and a second release is Aborted
  std::int64_t lease = 0;
  std::int64_t epoch = 0;
};

struct RenewAnswer {
  Time expires_at = {};
  bool repeated = false;
};

/// Gives a live lease a full lease time from now. Aborted for a lease that has ended, PermissionDenied for another
/// annotator's.
absl::StatusOr<RenewAnswer> RenewLease(Ledger& ledger, const LeaseRequest& request);

struct ReleaseAnswer {
  std::int64_t sequence = 0;
  bool repeated = false;
};

/// Hands a lease back; its slot is open again at once and no attempt is counted. Errors as RenewLease.
absl::StatusOr<ReleaseAnswer> ReleaseLease(Ledger& ledger, const LeaseRequest& request);

/// Ends the leases whose time is up, and sets aside the items whose attempts are used up.
absl::Status ExpireDueLeases(Ledger& ledger);

/// The live lease that a request means; errors as RenewLease.
absl::StatusOr<Lease> RequireLiveLease(Ledger& ledger, const LeaseRequest& request);

/// The lease that a request means, live or not, as it was granted; InvalidArgument for one that never was.
absl::StatusOr<LeaseGranted> RequireGrant(Ledger& ledger, const LeaseRequest& request);

/// Sets the item aside if the slot has used up its attempts.
absl::Status SetAsideIfExhausted(Ledger& ledger, const std::string& item, std::int64_t slot);

}  // namespace fulcrum::storage
