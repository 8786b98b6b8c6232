// Remembers, across process deaths, that a campaign was in a round when the process died.
//
// A small file in the campaign's folder is written and synced before a round begins and removed after it. If the file
// says "running" when the campaign is opened, the previous process died during the round, and the death is counted. A
// campaign that was in a round for kMostDeaths deaths in a row is quarantined: a round that crashes the process must
// not crash it again at every start. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/state/ledger.h"

namespace fulcrum::pipeline {

class RoundMarker {
 public:
  static constexpr std::int64_t kMostDeaths = 2;

  /// Reads the marker of a campaign's folder, and counts the death of the previous process if it was in a round.
  static absl::StatusOr<RoundMarker> Open(const std::string& folder);

  /// The process died kMostDeaths times in a row during this round.
  bool quarantined() const { return deaths_ >= kMostDeaths; }
  /// The round that the deaths were counted for.
  std::int64_t round() const { return round_; }
  std::int64_t deaths() const { return deaths_; }

  /// Durable when it returns OK. Deaths of another round are forgotten.
  absl::Status BeginRound(std::int64_t round);
  /// The round ended, with a batch or with an error: its deaths are forgotten.
  absl::Status EndRound();
  /// The round was cancelled: it did not crash, but it did not get to its end either. The deaths so far are kept.
  absl::Status CancelRound();
  /// Forgets all deaths.
  absl::Status Clear() { return EndRound(); }

 private:
  explicit RoundMarker(std::string path) : path_(std::move(path)) {}
  absl::Status Write(bool running) const;

  std::string path_;
  std::int64_t round_ = 0;
  std::int64_t deaths_ = 0;
};

// Closes a round whose remaining tasks the budget does not pay for, so that nobody waits for answers that cannot come.
//
// A rule that the store runs on its writing thread; see storage/state/round_rules.h.

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
