// Reads and writes whole model files. Thread-safe for different paths.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace fulcrum::classify {

/// Writes beside the path and renames, so that a reader sees the old file or the new one, never a half.
absl::Status WriteModelFile(const std::string& path, std::string_view content);

absl::StatusOr<std::string> ReadModelFile(const std::string& path);

}  // namespace fulcrum::classify
