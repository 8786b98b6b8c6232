#include "storage/state/label_rules.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"
#include "storage/checksum.h"

namespace fulcrum::storage {
namespace {

constexpr char kLate[] = "late";

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
  const Vote* const vote = CampaignState::FindVote(item, annotator);
  if (vote == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("you answered item '", item.id, "' before (event ", vote->sequence,
                                                    "); to say something else, change that label"));
}

absl::StatusOr<LabelAnswer> ChangeOrWithdraw(Ledger& ledger, const ChangeRequest& request, Event event) {
  FULCRUM_RETURN_IF_ERROR(CheckText("annotator", request.annotator));
  FULCRUM_RETURN_IF_ERROR(CheckText("item", request.item));
  event.fingerprint = Fingerprint({EventKindName(event.kind), request.item, event.value});
  FULCRUM_ASSIGN_OR_RETURN(const auto repeated,
                           FindRepeated(ledger, {request.annotator, request.request_id, event.fingerprint}));
  if (repeated.has_value()) return LabelAnswer{repeated->sequence, false, true};
  const Item* const item = ledger.state().FindItem(request.item);
  const Vote* const vote = item == nullptr ? nullptr : CampaignState::FindVote(*item, request.annotator);
  if (vote == nullptr || vote->withdrawn) {
    return absl::NotFoundError(absl::StrCat("you have no label on item '", request.item, "'"));
  }
  event.annotator = request.annotator;
  event.request_id = request.request_id;
  event.item = request.item;
  FULCRUM_ASSIGN_OR_RETURN(const std::int64_t sequence, ledger.Append(std::move(event)));
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
  if (repeated.has_value()) return LabelAnswer{repeated->sequence, repeated->reason == kLate, true};
  const Lease* const lease = ledger.state().FindLease(request.lease);
  const bool live = lease != nullptr && lease->annotator == request.annotator && lease->epoch == request.epoch;
  Event event{.kind = EventKind::kLabelSubmitted};
  if (live) {
    event.item = lease->item;
    event.slot = lease->slot;
    event.round = lease->round;
  } else {
    const LeaseRequest meant = {.annotator = request.annotator, .lease = request.lease, .epoch = request.epoch};
    FULCRUM_ASSIGN_OR_RETURN(const Event grant, RequireGrant(ledger, meant));
    event.item = grant.item;
    event.slot = grant.slot;
    event.round = grant.round;
    event.reason = kLate;
  }
  if (event.item != request.item) {
    return absl::InvalidArgumentError(
        absl::StrCat("lease ", request.lease, " is for item '", event.item, "', not '", request.item, "'"));
  }
  const Item& item = *ledger.state().FindItem(event.item);
  FULCRUM_RETURN_IF_ERROR(RefuseSecondAnswer(item, request.annotator));
  event.annotator = request.annotator;
  event.request_id = request.request_id;
  event.fingerprint = fingerprint;
  event.lease = request.lease;
  event.epoch = request.epoch;
  event.value = request.value;
  event.cost = request.cost.value_or(item.cost);
  FULCRUM_ASSIGN_OR_RETURN(const std::int64_t sequence, ledger.Append(std::move(event)));
  return LabelAnswer{sequence, !live, false};
}

absl::StatusOr<LabelAnswer> ChangeLabel(Ledger& ledger, const ChangeRequest& request) {
  FULCRUM_RETURN_IF_ERROR(CheckText("label", request.value));
  return ChangeOrWithdraw(ledger, request, {.kind = EventKind::kLabelChanged, .value = request.value});
}

absl::StatusOr<LabelAnswer> WithdrawLabel(Ledger& ledger, const ChangeRequest& request) {
  return ChangeOrWithdraw(ledger, request, {.kind = EventKind::kLabelWithdrawn});
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
  FULCRUM_ASSIGN_OR_RETURN(const std::int64_t sequence, ledger.Append({.kind = EventKind::kTaskSkipped,
                                                                       .annotator = request.annotator,
                                                                       .request_id = request.request_id,
                                                                       .fingerprint = fingerprint,
                                                                       .item = lease.item,
                                                                       .slot = lease.slot,
                                                                       .lease = lease.id,
                                                                       .epoch = lease.epoch,
                                                                       .round = lease.round,
                                                                       .reason = SkipReasonName(request.reason)}));
  const Item& item = *ledger.state().FindItem(lease.item);
  const bool bad = item.bad_reports >= ledger.state().settings().bad_item_reports;
  if (request.reason == SkipReason::kBadItem && bad && item.status == ItemStatus::kOffered) {
    FULCRUM_RETURN_IF_ERROR(
        ledger.Append({.kind = EventKind::kItemSetAside, .item = lease.item, .reason = "bad item"}).status());
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
  }
  const std::int64_t fingerprint = FingerprintOf(request);
  const auto count = static_cast<std::int64_t>(request.labels.size());
  FULCRUM_ASSIGN_OR_RETURN(const auto repeated,
                           FindRepeated(ledger, {request.source, request.request_id, fingerprint}));
  if (repeated.has_value()) return ImportAnswer{count, true};
  for (const ImportedLabel& label : request.labels) {
    FULCRUM_RETURN_IF_ERROR(ledger
                                .Append({.kind = EventKind::kLabelImported,
                                         .annotator = request.source,
                                         .request_id = request.request_id,
                                         .fingerprint = fingerprint,
                                         .item = label.item,
                                         .value = label.value})
                                .status());
  }
  return ImportAnswer{count, false};
}

namespace {

bool IsControl(char byte) {
  const auto code = static_cast<unsigned char>(byte);
  return code < 0x20 || code == 0x7F;
}

/// Length of the UTF-8 sequence that starts with this byte; 0 where none can.
std::size_t SequenceLength(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  return lead >= 0xF0 && lead <= 0xF4 ? 4 : 0;
}

bool IsUtf8(absl::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = SequenceLength(static_cast<unsigned char>(text[i]));
    if (length == 0 || i + length > text.size()) return false;
    for (std::size_t j = 1; j < length; ++j) {
      if ((static_cast<unsigned char>(text[i + j]) & 0xC0) != 0x80) return false;
    }
    i += length;
  }
  return true;
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
  const auto sequence = ledger.state().FindRequest(request.annotator, request.request_id);
  if (!sequence.has_value()) return std::optional<Event>();
  FULCRUM_ASSIGN_OR_RETURN(Event first, ledger.log().Find(*sequence));
  if (first.fingerprint != request.fingerprint) {
    return absl::AlreadyExistsError(absl::StrCat("request id '", request.request_id,
                                                 "' was used for another request (event ", *sequence, ", ",
                                                 EventKindName(first.kind), "); make a new id for every new request"));
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
