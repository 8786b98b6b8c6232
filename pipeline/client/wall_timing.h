// The real clock and real pauses. Stateless and thread-safe.
#pragma once

#include "pipeline/client/retry.h"

namespace fulcrum::pipeline {

class StopFlag;

/// Pauses are broken off by the flag, which must outlive the timing.
Timing WallTiming(const StopFlag& stop);

}  // namespace fulcrum::pipeline
