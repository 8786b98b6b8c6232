#include "storage/request_check.h"

#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"
#include "storage/checksum.h"

namespace fulcrum::storage {
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
    checksum.Add(part);
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
