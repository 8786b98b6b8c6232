// The life of a campaign: its states and the transitions between them.
//
//   from      to        when
//   created   running   it is started
//   created   done      it is stopped before it was started
//   running   paused    it is paused
//   running   done      a stopping rule is met, the pool is used up, or it is stopped
//   running   failed    an error that does not pass by itself
//   paused    running   it is resumed
//   paused    done      it is stopped
//   failed    running   it is started again
//   failed    done      it is stopped
//   done      running   its stopping rules were changed so that it goes on
//
// A state that is not in the table cannot follow. What a running campaign does at the moment (compute a round, wait for
// labels), and whether it is quarantined, broken or being deleted, is not part of its log: the daemon knows it.
// Stateless and thread-safe.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace fulcrum::storage {

enum class Life { kCreated, kRunning, kPaused, kDone, kFailed };

/// "created", "running", ...: as it is in the log.
const char* LifeName(Life life);
/// DataLoss for a name that is none.
absl::StatusOr<Life> ParseLife(absl::string_view name);

/// Whether the table has this transition.
bool MayFollow(Life from, Life to);

}  // namespace fulcrum::storage
