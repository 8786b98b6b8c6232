// Durations as people write them: "50ms", "90s", "10m", "2h", "1h30m". Stateless and thread-safe.
#pragma once

#include <optional>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace fulcrum::pipeline {

/// Nothing where the text is no duration, below zero, or beyond ten thousand years.
std::optional<absl::Duration> ParseDurationText(absl::string_view text);

/// For messages: what a duration looks like.
inline constexpr char kDurationForm[] = "a duration such as 90s, 10m, 2h or 1h30m";

}  // namespace fulcrum::pipeline
