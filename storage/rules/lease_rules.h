// Rules for leases: which annotator works on which item, and until when.
//
// The store runs these functions on its writing thread, one at a time, with the state at the end of the log. Each
// returns OK and what it did, or an error and changes nothing. Leases whose time is up have expired before any of them
// runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/state/campaign_state.h"
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
  std::vector<GrantedLease> leases = {};  ///< empty if there is nothing to do now; nothing was recorded
  bool repeated = false;                  ///< this is the stored answer to a repeated request
};

/// Leases open slots that this annotator may answer, the best items first. ResourceExhausted once the label or cost
/// budget, or that of the annotator, is spent; an empty answer if live leases would spend the rest of it. Answers in
/// time never exceed a budget. A late one is kept and counts, also if the slot was answered by another annotator
/// meanwhile.
absl::StatusOr<AcquireAnswer> AcquireTasks(Ledger& ledger, const AcquireRequest& request);

struct SessionRequest {
  std::string annotator = {};
  std::string session = {};  ///< the ids of the requests of a session begin with this
};
/// The live leases of an annotator that were granted to requests of a session, in the order in which they were granted.
absl::StatusOr<std::vector<GrantedLease>> FindSessionLeases(Ledger& ledger, const SessionRequest& request);

struct LeaseRequest {
  std::string annotator = {};
  std::string request_id = {};  ///< may be empty: renewing twice is harmless, and a second release is Aborted
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

/// Returns a lease; its slot is open again at once and no attempt is counted. Errors as RenewLease.
absl::StatusOr<ReleaseAnswer> ReleaseLease(Ledger& ledger, const LeaseRequest& request);

/// Expires the leases whose time is up, and sets aside the items whose attempts are used up.
absl::Status ExpireDueLeases(Ledger& ledger);

/// The live lease of a request; errors as RenewLease.
absl::StatusOr<Lease> RequireLiveLease(Ledger& ledger, const LeaseRequest& request);

/// The lease of a request, live or not, as it was granted; InvalidArgument if it never existed.
absl::StatusOr<LeaseGranted> RequireGrant(Ledger& ledger, const LeaseRequest& request);

/// Sets the item aside if the slot has used up its attempts.
absl::Status SetAsideIfExhausted(Ledger& ledger, const std::string& item, std::int64_t slot);

// Which of the open items suits an annotator: what it is likely to answer, and what its answer would tell.
//
// How likely an annotator answers an item follows from how often it skips tasks or lets them expire, and how often that
// happened to the item, both smoothed: who does so no more than the others takes what comes, and reluctant annotators
// get items first that no annotator left unanswered. What an answer tells is the expected reduction of the doubt about
// the item's class under the annotator's confusion matrix, compared to an average annotator, so an annotator who can
// tell two classes apart gets the items that are in doubt between them.

class Suitability {
 public:
  /// Keeps a reference to the state.
  Suitability(const CampaignState& state, const std::string& annotator);

  /// Whether items differ for this annotator at all. Not if it holds far more tasks than the others do: then it takes
  /// them in their order, so that the items that suit the others are left for them.
  bool matters() const { return matters_; }
  /// 1 for an item that was never skipped, to an average annotator.
  double Of(const Item& item) const;

 private:
  double ChanceOfAnswer(const Item& item) const;
  double RelativeInformation(const Item& item) const;

  const CampaignState& state_;
  double odds_ = 1;        // that it answers, compared to the annotators together
  std::size_t place_ = 0;  // in the estimate; its size if it is not known there
  bool matters_ = false;
};

}  // namespace fulcrum::storage
