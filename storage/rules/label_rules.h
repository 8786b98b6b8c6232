// Rules for labels, and for tasks that are skipped.
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
#include "storage/rules/lease_rules.h"
#include "storage/state/campaign_records.h"
#include "storage/state/ledger.h"

namespace fulcrum::storage {

struct SubmitRequest {
  std::string annotator = {};
  std::string request_id = {};
  std::int64_t lease = 0;
  std::int64_t epoch = 0;
  std::string item = {};  ///< must be the lease's
  std::string value = {};
  std::optional<double> cost = {};  ///< if it differs from that of the item
};

struct LabelAnswer {
  std::int64_t sequence = 0;  ///< of the label in the log
  bool late = false;          ///< its lease had ended
  bool repeated = false;      ///< this is the stored answer to a repeated request
};

/// FailedPrecondition if this annotator has answered the item before; PermissionDenied for the lease of another
/// annotator.
absl::StatusOr<LabelAnswer> SubmitLabel(Ledger& ledger, const SubmitRequest& request);

struct ChangeRequest {
  std::string annotator = {};
  std::string request_id = {};
  std::string item = {};
  std::string value = {};  ///< not used to withdraw
};

/// Replaces the label of this annotator; NotFound if there is none.
absl::StatusOr<LabelAnswer> ChangeLabel(Ledger& ledger, const ChangeRequest& request);
/// Withdraws the label of this annotator. It cannot be given again.
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
  double cost = 0;  ///< of one answer, if annotators are asked about it
};

struct ImportRequest {
  std::string source = {};  ///< of the labels; recorded as the annotator
  std::string request_id = {};
  std::vector<ImportedLabel> labels = {};
};

struct ImportAnswer {
  std::int64_t labels = 0;
  bool repeated = false;
};

/// Imports labels, all or none: they overrule all votes on their items, and cost nothing.
absl::StatusOr<ImportAnswer> ImportLabels(Ledger& ledger, const ImportRequest& request);

// Checks of every request: its texts are valid, and it takes effect once.
//
// Stateless. Requests are identified by annotator and request id, so that annotators need not coordinate their ids.

/// Longer names, values and ids are refused.
inline constexpr std::size_t kMostTextBytes = 4096;

/// InvalidArgument unless the text is non-empty UTF-8 without control characters and not too long.
absl::Status CheckText(absl::string_view what, absl::string_view text);

/// A stable hash of a request's content; the first part says which kind of request.
std::int64_t Fingerprint(std::initializer_list<absl::string_view> parts);

/// Who sent which request, with which id.
struct RequestIdentity {
  absl::string_view annotator = {};
  absl::string_view request_id = {};
  std::int64_t fingerprint = 0;
};

/// The first event that this request caused when it took effect before; nothing for a new one. AlreadyExists if the id
/// was used for another request.
absl::StatusOr<std::optional<Event>> FindRepeated(Ledger& ledger, const RequestIdentity& request);

/// The same for requests that are harmless to repeat and need no id: nothing is found without one.
absl::StatusOr<std::optional<Event>> FindRepeatedIfNamed(Ledger& ledger, const RequestIdentity& request);

/// All events that a request caused, given the first.
absl::StatusOr<std::vector<Event>> EventsOfRequest(Ledger& ledger, const Event& first);

}  // namespace fulcrum::storage
