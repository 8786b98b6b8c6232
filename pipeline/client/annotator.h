// Somebody who answers tasks: a person at a terminal, or a file that imitates people.
//
// Called from one thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "pipeline/client/labeling_calls.h"

namespace fulcrum::pipeline {

/// What an annotator does about a task.
struct Decision {
  enum class Kind { kLabel, kSkip, kUndo, kQuit, kCrash };

  Kind kind = Kind::kLabel;
  std::string value = {};                        ///< of kLabel
  SkipReason skip_reason = SkipReason::kUnsure;  ///< of kSkip
};

/// Answers that are not sent yet: so many, and as long as they are no older.
struct HoldBack {
  std::size_t count = 0;
  std::chrono::milliseconds age = std::chrono::hours(24 * 365);
};

class Annotator {
 public:
  /// To be called about every second while an annotator thinks, so that leases are renewed; false when it should quit.
  using KeepAlive = std::function<bool()>;

  virtual ~Annotator() = default;

  virtual absl::StatusOr<Decision> Decide(const WorkTask& task, const KeepAlive& keep_alive) = 0;
  /// Asked when all tasks are answered and the last answer is about to be sent: kLabel to send it and go on, kUndo to
  /// take it back, kQuit to send it and leave.
  virtual Decision::Kind ReviewLast(const KeepAlive& keep_alive) {
    static_cast<void>(keep_alive);
    return Decision::Kind::kLabel;
  }
  /// There is nothing to do now.
  virtual void OnIdle() {}
  /// How far answers are kept back, for an undo or for fewer calls.
  virtual HoldBack hold_back() const = 0;
};

}  // namespace fulcrum::pipeline
