// The process that is killed: opens a campaign on which three annotators and a daemon work.
#pragma once

#include <cstdint>
#include <string>

#include "tests/recovery/outside_ledger.h"

namespace fulcrum::testing {

struct VictimOptions {
  std::string folder = {};
  std::uint64_t seed = 0;
  std::int64_t run = 0;  ///< makes request ids unique across runs
  int pipe = -1;         ///< entries are written to it
};

/// Retries requests without a response, repeats requests with one, and continues with new ones. Returns only if the
/// store cannot be opened or is unusable, with its error.
std::string RunVictim(const VictimOptions& options, const OutsideLedger& ledger);

}  // namespace fulcrum::testing
