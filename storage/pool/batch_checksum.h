// Checksums of what a pool holds: XXH3, 64 bits, from the copy that Arrow brings, because a pool is read as fast as
// memory goes. (Campaigns name theirs in the log; those are of storage/checksum.h.) Thread-safe.
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

/// Of everything that a batch holds: lengths, nulls and values of its columns, whatever lies between them in memory.
std::uint64_t ChecksumOf(const arrow::RecordBatch& batch);

/// Sixteen hexadecimal digits, and back; DataLoss for other text.
std::string ChecksumText(std::uint64_t checksum);
absl::StatusOr<std::uint64_t> ParseChecksum(absl::string_view text);

}  // namespace fulcrum::storage
