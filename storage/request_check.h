// What every request goes through: its names are sane, and it takes effect once.
//
// Stateless. Requests are told apart by annotator and request id, so nobody can use up another's ids.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/ledger.h"

namespace fulcrum::storage {

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
