// Checksums of the content of a pool: XXH3 with 64 bits, from the copy in Arrow, because a pool is read at the speed of
// memory. (The checksums in the log of a campaign are those of stages/core/files.h.) Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "arrow/type_fwd.h"

namespace fulcrum::storage {

/// Of some bytes; `seed` chains several pieces.
std::uint64_t Fingerprint(const void* bytes, std::size_t size, std::uint64_t seed = 0);

/// Of the content of a batch: lengths, nulls and values of its columns, but not the padding between them.
std::uint64_t ChecksumOf(const arrow::RecordBatch& batch);

/// Sixteen hexadecimal digits, and back; DataLoss for other text.
std::string ChecksumText(std::uint64_t checksum);
absl::StatusOr<std::uint64_t> ParseChecksum(absl::string_view text);

}  // namespace fulcrum::storage
