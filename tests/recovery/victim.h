// The process that is killed: it opens a campaign and has three annotators and a daemon work on it, until its end.
#pragma once

#include <cstdint>
#include <string>

#include "tests/recovery/outside_ledger.h"

namespace fulcrum::testing {

struct VictimOptions {
  std::string folder = {};
  std::uint64_t seed = 0;
  std::int64_t run = 0;  ///< makes request ids unique across runs
  int pipe = -1;         ///< where entries go
};

/// Retries what was never answered, asks again what was, and goes on with new requests. Returns only where the store
/// cannot be opened or is over, with what it said.
std::string RunVictim(const VictimOptions& options, const OutsideLedger& ledger);

}  // namespace fulcrum::testing
