// Checksums of files, as the store records them. Thread-safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "stages/core/files.h"

namespace fulcrum::storage {

using fulcrum::Checksum;

/// Of a whole file, read in pieces. NotFound if it does not exist.
absl::StatusOr<std::string> ChecksumOfFile(const std::string& path);

}  // namespace fulcrum::storage
