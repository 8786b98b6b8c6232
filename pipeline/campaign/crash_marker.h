// Remembers, across process deaths, that a piece of work was going on when the process died.
//
// A small file is written before the work begins and removed after it. If the file says "running" when it is opened,
// the previous process died during the work, and the death is counted. Work during which the process died kMostDeaths
// times in a row is not begun again by itself: it must not end the process at every start. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/state/ledger.h"

namespace fulcrum::pipeline {

class CrashMarker {
 public:
  static constexpr std::int64_t kMostDeaths = 2;

  /// Reads the file, and counts the death of the previous process if it was at work.
  static absl::StatusOr<CrashMarker> Open(std::string path);

  /// The work that the deaths are counted for.
  const std::string& work() const { return work_; }
  std::int64_t deaths() const { return deaths_; }
  bool gives_up() const { return deaths_ >= kMostDeaths; }
  const std::string& path() const { return path_; }

  /// The name of the work has no spaces. Deaths of another work are forgotten. If `durable`, a power failure counts as
  /// a death too.
  absl::Status Begin(const std::string& work, bool durable = true);
  /// The work ended, with a result or with an error: its deaths are forgotten.
  absl::Status End();
  /// The work was cancelled: it did not crash, but it did not get to its end either. The deaths so far are kept.
  absl::Status Cancel();

 private:
  explicit CrashMarker(std::string path) : path_(std::move(path)) {}
  absl::Status Write(bool running, bool durable) const;

  std::string path_;
  std::string work_;
  std::int64_t deaths_ = 0;
};

// Remembers, across process deaths, that a campaign was in a round when the process died.
//
// A campaign that was in a round for CrashMarker::kMostDeaths deaths in a row is quarantined: a round that crashes the
// process must not crash it again at every start. The file is round.marker in the campaign's folder. Not thread-safe.

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

// Closes a round whose remaining tasks the budget does not pay for, so that the campaign does not wait for answers that
// cannot come.
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
