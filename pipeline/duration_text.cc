#include "pipeline/duration_text.h"

#include <cstdint>
#include <string>

namespace fulcrum::pipeline {
namespace {

constexpr std::int64_t kMostSeconds = 315'576'000'000;  // what google.protobuf.Duration can hold

}  // namespace

std::optional<absl::Duration> ParseDurationText(absl::string_view text) {
  absl::Duration duration;
  if (!absl::ParseDuration(std::string(text), &duration)) return std::nullopt;
  if (duration < absl::ZeroDuration() || duration > absl::Seconds(kMostSeconds)) return std::nullopt;
  return duration;
}

}  // namespace fulcrum::pipeline
