// Remembers, across process deaths, that a campaign was in a round when the process died.
//
// A campaign that was in a round for CrashMarker::kMostDeaths deaths in a row is quarantined: a round that crashes the
// process must not crash it again at every start. The file is round.marker in the campaign's folder. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/campaign/crash_marker.h"
#include "storage/state/ledger.h"

namespace fulcrum::pipeline {

class RoundMarker {
 public:
  /// Reads the marker of a campaign's folder, and counts the death of the previous process if it was in a round.
  static absl::StatusOr<RoundMarker> Open(const std::string& folder);

  bool quarantined() const { return marker_.gives_up(); }
  /// The round that the deaths were counted for.
  std::int64_t round() const;
  std::int64_t deaths() const { return marker_.deaths(); }

  /// Durable when it returns OK. Deaths of another round are forgotten.
  absl::Status BeginRound(std::int64_t round);
  /// The round ended, with a batch or with an error: its deaths are forgotten.
  absl::Status EndRound() { return marker_.End(); }
  /// The round was cancelled: the deaths so far are kept.
  absl::Status CancelRound() { return marker_.Cancel(); }
  /// Forgets all deaths.
  absl::Status Clear() { return EndRound(); }

 private:
  explicit RoundMarker(CrashMarker marker) : marker_(std::move(marker)) {}

  CrashMarker marker_;
};

// Closes a round whose remaining tasks the budget does not pay for, so that nobody waits for answers that cannot come.
//
// A rule that the store runs on its writing thread; see storage/rules/round_rules.h.

struct SpentRequest {
  std::int64_t round = 0;  ///< nothing happens if it is not open
};

struct SpentAnswer {
  bool closed = false;
  std::string over = {};           ///< why no further round would help
  std::string decided_under = {};  ///< the specification by which that is so
};

/// Closes the round if a budget is spent, or if no lease is live and no open task is affordable. Items without an
/// answer return to the pool.
absl::StatusOr<SpentAnswer> CloseIfSpent(storage::Ledger& ledger, const SpentRequest& request);

}  // namespace fulcrum::pipeline
