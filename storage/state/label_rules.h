// Labels: facts that are paid for, and what annotators say instead of one.
//
// Run by the store like the lease rules. Leases are fenced, labels are not: a label for a lease that has ended is kept
// and counts as a vote.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/state/campaign_records.h"
#include "storage/state/lease_rules.h"
#include "storage/state/ledger.h"

namespace fulcrum::storage {

struct SubmitRequest {
  std::string annotator = {};
  std::string request_id = {};
  std::int64_t lease = 0;
  std::int64_t epoch = 0;
  std::string item = {};  ///< must be the lease's
  std::string value = {};
  std::optional<double> cost = {};  ///< where it differs from the item's
};

struct LabelAnswer {
  std::int64_t sequence = 0;  ///< of the label in the log
  bool late = false;          ///< its lease had ended
  bool repeated = false;      ///< the answer to the same request from before
};

/// FailedPrecondition where this annotator has answered the item before; PermissionDenied for another annotator's
/// lease.
absl::StatusOr<LabelAnswer> SubmitLabel(Ledger& ledger, const SubmitRequest& request);

struct ChangeRequest {
  std::string annotator = {};
  std::string request_id = {};
  std::string item = {};
  std::string value = {};  ///< not used to withdraw
};

/// Replaces the annotator's own label; NotFound where there is none.
absl::StatusOr<LabelAnswer> ChangeLabel(Ledger& ledger, const ChangeRequest& request);
/// Takes the annotator's own label back, for good.
absl::StatusOr<LabelAnswer> WithdrawLabel(Ledger& ledger, const ChangeRequest& request);

struct SkipRequest {
  std::string annotator = {};
  std::string request_id = {};
  std::int64_t lease = 0;
  std::int64_t epoch = 0;
  SkipReason reason = SkipReason::kUnsure;
};

/// Ends a live lease without an answer; errors as RenewLease.
absl::StatusOr<LabelAnswer> SkipTask(Ledger& ledger, const SkipRequest& request);

struct ImportedLabel {
  std::string item = {};
  std::string value = {};
};

struct ImportRequest {
  std::string source = {};  ///< where the labels come from; stands for the annotator
  std::string request_id = {};
  std::vector<ImportedLabel> labels = {};
};

struct ImportAnswer {
  std::int64_t labels = 0;
  bool repeated = false;
};

/// Labels from elsewhere, all or none: they decide their items whatever the votes say, and cost nothing.
absl::StatusOr<ImportAnswer> ImportLabels(Ledger& ledger, const ImportRequest& request);

// What every request goes through: its names are sane, and it takes effect once.
//
// Stateless. Requests are told apart by annotator and request id, so nobody can use up another's ids.

/// Longer names, values and ids are refused.
inline constexpr std::size_t kMostTextBytes = 4096;

/// InvalidArgument unless the text is non-empty UTF-8 without control characters and not too long.
absl::Status CheckText(absl::string_view what, absl::string_view text);

/// A stable hash of a request's content; the first part says which kind of request.
std::int64_t Fingerprint(std::initializer_list<absl::string_view> parts);

/// Who asks for what, and under which id.
struct RequestIdentity {
  absl::string_view annotator = {};
  absl::string_view request_id = {};
  std::int64_t fingerprint = 0;
};

/// The first event that this request caused when it took effect before; nothing for a new one. AlreadyExists where the
/// id was used for something else.
absl::StatusOr<std::optional<Event>> FindRepeated(Ledger& ledger, const RequestIdentity& request);

/// The same for requests that are harmless to repeat and need no id: without one, nothing is ever found.
absl::StatusOr<std::optional<Event>> FindRepeatedIfNamed(Ledger& ledger, const RequestIdentity& request);

/// All events that a request caused, given the first.
absl::StatusOr<std::vector<Event>> EventsOfRequest(Ledger& ledger, const Event& first);

}  // namespace fulcrum::storage
