// Closes a round whose remaining tasks the budget does not pay for, so that nobody waits for answers that cannot come.
//
// A rule that the store runs on its writing thread; see storage/state/round_rules.h.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "storage/state/ledger.h"

namespace fulcrum::pipeline {

struct SpentRequest {
  std::int64_t round = 0;  ///< nothing happens if it is not open
};

struct SpentAnswer {
  bool closed = false;
  std::string over = {};  ///< why no further round would help
};

/// Closes the round if a budget is spent, or if no lease is live and no open task is affordable. Items without an
/// answer return to the pool.
absl::StatusOr<SpentAnswer> CloseIfSpent(storage::Ledger& ledger, const SpentRequest& request);

}  // namespace fulcrum::pipeline
