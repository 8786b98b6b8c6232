// The columns of an imported pool's files.
//
//   id        text; absent if rows are identified by their numbers
//   features  lists of float32, all of one length; or, of a sparse pool, `indices` and `values`
//   label     text, null if unknown
//   cost      float64, null if unknown
//   payload   bytes, as in the source: what an annotator sees
//
// A plain value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "arrow/type_fwd.h"

namespace fulcrum::storage {

struct PoolShape {
  std::int32_t features = 0;  ///< of a row; 0 for sparse ones
  bool sparse = false;
  bool has_id = false;
  bool has_label = false;
  bool has_cost = false;
  bool has_payload = false;

  bool operator==(const PoolShape&) const = default;
};

/// Indices of the columns; -1 for those that do not exist.
struct PoolColumns {
  int id = -1;
  int features = -1;  ///< the indices of a sparse pool
  int values = -1;    ///< of a sparse pool
  int label = -1;
  int cost = -1;
  int payload = -1;
};

std::shared_ptr<arrow::Schema> SchemaOf(const PoolShape& shape);
PoolColumns ColumnsOf(const PoolShape& shape);
/// DataLoss for a schema that is not a pool's.
absl::StatusOr<PoolShape> ShapeOf(const arrow::Schema& schema);

// Checksums of the content of a pool: XXH3 with 64 bits, from the copy in Arrow, because a pool is read at the speed of
// memory. (The checksums in the log of a campaign are those of stages/core/files.h.) Thread-safe.

/// Of some bytes; `seed` chains several pieces.
std::uint64_t Fingerprint(const void* bytes, std::size_t size, std::uint64_t seed = 0);

/// Of the content of a batch: lengths, nulls and values of its columns, but not the padding between them.
std::uint64_t ChecksumOf(const arrow::RecordBatch& batch);

/// Sixteen hexadecimal digits, and back; DataLoss for other text.
std::string ChecksumText(std::uint64_t checksum);
absl::StatusOr<std::uint64_t> ParseChecksum(absl::string_view text);

}  // namespace fulcrum::storage
