#include "storage/rules/label_rules.h"

#include <cmath>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "arrow/util/utf8.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"
#include "storage/rules/annotator_rules.h"
#include "storage/rules/stuck_items.h"

namespace fulcrum::storage {
namespace {

absl::Status CheckSubmit(const SubmitRequest& request) {
  FULCRUM_RETURN_IF_ERROR(CheckText("annotator", request.annotator));
  FULCRUM_RETURN_IF_ERROR(CheckText("item", request.item));
  FULCRUM_RETURN_IF_ERROR(CheckText("label", request.value));
  if (!request.cost.has_value() || (std::isfinite(*request.cost) && *request.cost >= 0)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a label cannot cost ", *request.cost));
}

std::int64_t FingerprintOf(const SubmitRequest& request) {
  return Fingerprint({"submit", absl::StrCat(request.lease), absl::StrCat(request.epoch), request.item, request.value,
                      request.cost.has_value() ? absl::StrCat(*request.cost) : ""});
}

absl::Status RefuseSecondAnswer(const Item& item, const std::string& annotator) {
  const Vote* const vote = ItemTable::FindVote(item, annotator);
  if (vote == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("you answered item '", item.id, "' before (event ", vote->sequence,
                                                    "); to say something else, change that label"));
}

/// `value` is what the annotator says now; empty to withdraw.
absl::StatusOr<LabelAnswer> ChangeOrWithdraw(Ledger& ledger, const ChangeRequest& request, const std::string& value,
                                             EventBody body) {
  FULCRUM_RETURN_IF_ERROR(CheckText("annotator", request.annotator));
  FULCRUM_RETURN_IF_ERROR(CheckText("item", request.item));
  const std::int64_t fingerprint = Fingerprint({EventKindName(KindOf(body)), request.item, value});
  FULCRUM_ASSIGN_OR_RETURN(const auto repeated,
                           FindRepeated(ledger, {request.annotator, request.request_id, fingerprint}));
  if (repeated.has_value()) return LabelAnswer{repeated->sequence, false, true};
  const Item* const item = ledger.state().items().Find(request.item);
  const Vote* const vote = item == nullptr ? nullptr : ItemTable::FindVote(*item, request.annotator);
  if (vote == nullptr || vote->withdrawn) {
    return absl::NotFoundError(absl::StrCat("you have no label on item '", request.item, "'"));
  }
  FULCRUM_ASSIGN_OR_RETURN(const std::int64_t sequence, ledger.Append({.annotator = request.annotator,
                                                                       .request_id = request.request_id,
                                                                       .fingerprint = fingerprint,
                                                                       .body = std::move(body)}));
  FULCRUM_RETURN_IF_ERROR(AcceptIfOver(ledger, request.item));
  return LabelAnswer{sequence, false, false};
}

std::int64_t FingerprintOf(const ImportRequest& request) {
  std::string content;
  for (const ImportedLabel& label : request.labels) {
    absl::StrAppend(&content, Fingerprint({label.item, label.value}), ",");
  }
  return Fingerprint({"import", content});
}

}  // namespace

absl::StatusOr<LabelAnswer> SubmitLabel(Ledger& ledger, const SubmitRequest& request) {
  FULCRUM_RETURN_IF_ERROR(CheckSubmit(request));
  const std::int64_t fingerprint = FingerprintOf(request);
  FULCRUM_ASSIGN_OR_RETURN(const auto repeated,
                           FindRepeated(ledger, {request.annotator, request.request_id, fingerprint}));
  if (repeated.has_value()) {
    const auto* const submitted = std::get_if<LabelSubmitted>(&repeated->body);
    return LabelAnswer{repeated->sequence, submitted != nullptr && submitted->late, true};
  }
  const Lease* const lease = ledger.state().leases().Find(request.lease);
  const bool live = lease != nullptr && lease->annotator == request.annotator && lease->epoch == request.epoch;
  LabelSubmitted label{.lease = request.lease, .epoch = request.epoch, .value = request.value, .late = !live};
  if (live) {
    label.item = lease->item;
    label.slot = lease->slot;
    label.round = lease->round;
  } else {
    const LeaseRequest meant = {.annotator = request.annotator, .lease = request.lease, .epoch = request.epoch};
    FULCRUM_ASSIGN_OR_RETURN(const LeaseGranted grant, RequireGrant(ledger, meant));
    label.item = grant.item;
    label.slot = grant.slot;
    label.round = grant.round;
  }
  if (label.item != request.item) {
    return absl::InvalidArgumentError(
        absl::StrCat("lease ", request.lease, " is for item '", label.item, "', not '", request.item, "'"));
  }
  const Item& item = *ledger.state().items().Find(label.item);
  FULCRUM_RETURN_IF_ERROR(RefuseSecondAnswer(item, request.annotator));
  label.cost = request.cost.value_or(live ? lease->cost : ledger.state().CostOf(item, request.annotator));
  FULCRUM_ASSIGN_OR_RETURN(const std::int64_t sequence, ledger.Append({.annotator = request.annotator,
                                                                       .request_id = request.request_id,
                                                                       .fingerprint = fingerprint,
                                                                       .body = std::move(label)}));
  FULCRUM_RETURN_IF_ERROR(EstimateIfDue(ledger));
  FULCRUM_RETURN_IF_ERROR(AcceptIfOver(ledger, request.item));
  return LabelAnswer{sequence, !live, false};
}

absl::StatusOr<LabelAnswer> ChangeLabel(Ledger& ledger, const ChangeRequest& request) {
  FULCRUM_RETURN_IF_ERROR(CheckText("label", request.value));
  return ChangeOrWithdraw(ledger, request, request.value, LabelChanged{request.item, request.value});
}

absl::StatusOr<LabelAnswer> WithdrawLabel(Ledger& ledger, const ChangeRequest& request) {
  return ChangeOrWithdraw(ledger, request, "", LabelWithdrawn{request.item});
}

absl::StatusOr<LabelAnswer> SkipTask(Ledger& ledger, const SkipRequest& request) {
  const std::int64_t fingerprint =
      Fingerprint({"skip", absl::StrCat(request.lease), absl::StrCat(request.epoch), SkipReasonName(request.reason)});
  FULCRUM_ASSIGN_OR_RETURN(const auto repeated,
                           FindRepeated(ledger, {request.annotator, request.request_id, fingerprint}));
  if (repeated.has_value()) return LabelAnswer{repeated->sequence, false, true};
  FULCRUM_ASSIGN_OR_RETURN(
      const Lease lease,
      RequireLiveLease(ledger, {.annotator = request.annotator, .lease = request.lease, .epoch = request.epoch}));
  FULCRUM_ASSIGN_OR_RETURN(const std::int64_t sequence,
                           ledger.Append({.annotator = request.annotator,
                                          .request_id = request.request_id,
                                          .fingerprint = fingerprint,
                                          .body = TaskSkipped{.item = lease.item,
                                                              .slot = lease.slot,
                                                              .lease = lease.id,
                                                              .epoch = lease.epoch,
                                                              .round = lease.round,
                                                              .reason = SkipReasonName(request.reason)}}));
  const Item& item = *ledger.state().items().Find(lease.item);
  const bool bad = item.bad_reports >= ledger.state().settings().bad_item_reports;
  if (request.reason == SkipReason::kBadItem && bad && item.status == ItemStatus::kOffered) {
    FULCRUM_RETURN_IF_ERROR(ledger.Append({.body = ItemSetAside{lease.item, "bad item"}}).status());
  } else {
    FULCRUM_RETURN_IF_ERROR(SetAsideIfExhausted(ledger, lease.item, lease.slot));
  }
  return LabelAnswer{sequence, false, false};
}

absl::StatusOr<ImportAnswer> ImportLabels(Ledger& ledger, const ImportRequest& request) {
  FULCRUM_RETURN_IF_ERROR(CheckText("source", request.source));
  for (const ImportedLabel& label : request.labels) {
    FULCRUM_RETURN_IF_ERROR(CheckText("item", label.item));
    FULCRUM_RETURN_IF_ERROR(CheckText("label", label.value));
    if (!(std::isfinite(label.cost) && label.cost >= 0)) {
      return absl::InvalidArgumentError(absl::StrCat("an answer to item '", label.item, "' cannot cost ", label.cost));
    }
  }
  const std::int64_t fingerprint = FingerprintOf(request);
  const auto count = static_cast<std::int64_t>(request.labels.size());
  FULCRUM_ASSIGN_OR_RETURN(const auto repeated,
                           FindRepeated(ledger, {request.source, request.request_id, fingerprint}));
  if (repeated.has_value()) return ImportAnswer{count, true};
  for (const ImportedLabel& label : request.labels) {
    FULCRUM_RETURN_IF_ERROR(ledger
                                .Append({.annotator = request.source,
                                         .request_id = request.request_id,
                                         .fingerprint = fingerprint,
                                         .body = LabelImported{label.item, label.value, label.cost}})
                                .status());
  }
  return ImportAnswer{count, false};
}

namespace {

bool IsControl(char byte) {
  const auto code = static_cast<unsigned char>(byte);
  return code < 0x20 || code == 0x7F;
}

bool IsUtf8(absl::string_view text) {
  static const bool initialized = [] {
    arrow::util::InitializeUTF8();
    return true;
  }();
  return initialized && arrow::util::ValidateUTF8(std::string_view(text.data(), text.size()));
}

}  // namespace

absl::Status CheckText(absl::string_view what, absl::string_view text) {
  if (text.empty()) return absl::InvalidArgumentError(absl::StrCat("the ", what, " is missing"));
  if (text.size() > kMostTextBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", what, " has ", text.size(), " bytes; at most ", kMostTextBytes, " are taken"));
  }
  for (const char byte : text) {
    if (IsControl(byte)) {
      return absl::InvalidArgumentError(absl::StrCat("the ", what, " holds a control character, code ",
                                                     static_cast<int>(static_cast<unsigned char>(byte))));
    }
  }
  if (!IsUtf8(text)) return absl::InvalidArgumentError(absl::StrCat("the ", what, " is not valid UTF-8"));
  return absl::OkStatus();
}

std::int64_t Fingerprint(std::initializer_list<absl::string_view> parts) {
  Checksum checksum;
  for (const absl::string_view part : parts) {
    // The length keeps ("ab", "c") apart from ("a", "bc").
    checksum.Add(absl::StrCat(part.size(), ":"));
    checksum.Add({part.data(), part.size()});
  }
  return static_cast<std::int64_t>(checksum.value());
}

absl::StatusOr<std::optional<Event>> FindRepeated(Ledger& ledger, const RequestIdentity& request) {
  FULCRUM_RETURN_IF_ERROR(CheckText("request id", request.request_id));
  const auto sequence = ledger.state().requests().Find(request.annotator, request.request_id);
  if (!sequence.has_value()) return std::optional<Event>();
  FULCRUM_ASSIGN_OR_RETURN(Event first, ledger.log().Find(*sequence));
  if (first.fingerprint != request.fingerprint) {
    return absl::AlreadyExistsError(
        absl::StrCat("request id '", request.request_id, "' was used for another request (event ", *sequence, ", ",
                     EventKindName(KindOf(first.body)), "); make a new id for every new request"));
  }
  return std::optional<Event>(std::move(first));
}

absl::StatusOr<std::optional<Event>> FindRepeatedIfNamed(Ledger& ledger, const RequestIdentity& request) {
  if (request.request_id.empty()) return std::optional<Event>();
  return FindRepeated(ledger, request);
}

absl::StatusOr<std::vector<Event>> EventsOfRequest(Ledger& ledger, const Event& first) {
  std::vector<Event> events;
  const absl::Status end_of_request = absl::OutOfRangeError("");
  const absl::Status status = ledger.log().Visit(first.sequence, kEndOfLog, [&](const Event& event) {
    if (event.request_id != first.request_id || event.annotator != first.annotator) return end_of_request;
    events.push_back(event);
    return absl::OkStatus();
  });
  if (!status.ok() && status != end_of_request) return status;
  return events;
}

}  // namespace fulcrum::storage
