// Rows that join a campaign's pool while it runs.
//
// Run by the store like the lease rules. The rows lie in a folder of their own, written whole and made durable before
// the log tells of it: a folder that the log does not name is left over from something interrupted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/ledger.h"

namespace fulcrum::storage {

struct AppendRowsRequest {
  std::string by = {};  ///< who appends
  std::string request_id = {};
  std::string content = {};  ///< a checksum of what was sent, by which a repeat is known
  std::string folder = {};   ///< relative to the campaign's; not used where there are no rows
  std::int64_t rows = 0;
  std::string answer = {};  ///< to be given again to a repeat
};

/// What was answered to the same request before; nothing for a new one. AlreadyExists where its id was used for
/// something else.
absl::StatusOr<std::optional<std::string>> FindAppendAnswer(Ledger& ledger, const AppendRowsRequest& request);

/// Makes the rows part of the pool, and returns the answer: its own, or the stored one where the request is a repeat.
absl::StatusOr<std::string> AppendRows(Ledger& ledger, const AppendRowsRequest& request);

/// Asks for everything that has joined the pool.
struct AppendedSoFarRequest {};
absl::StatusOr<std::vector<AppendedRows>> AppendedSoFar(Ledger& ledger, const AppendedSoFarRequest& request);

}  // namespace fulcrum::storage
