// Remembers, across process deaths, that a piece of work was going on when the process died.
//
// A small file is written before the work begins and removed after it. If the file says "running" when it is opened,
// the previous process died during the work, and the death is counted. Work during which the process died kMostDeaths
// times in a row is not begun again by itself: it must not end the process at every start. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

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

}  // namespace fulcrum::pipeline
