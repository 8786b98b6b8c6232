// The features of an imported pool as the kernels read them, without loading them into memory.
//
// Rows are float32 in the mapping; they are normalised each time they are copied out, a few hundred at a time, so that
// a pool larger than memory costs eight bytes per row (its squared norms). Pages of the mapping count as memory of this
// process once they are touched, so they are released from time to time; the page cache keeps them if there is room.
// A mapping that may stay in memory as a whole is left alone, which saves the page faults of every pass.
//
// Immutable and thread-safe after Open. Dense pools only.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "arrow/type_fwd.h"
#include "stages/core/communicator.h"
#include "stages/core/matrix.h"
#include "stages/ingest/normalize.h"
#include "stages/kernel/features.h"
#include "storage/pool/mapped_pool.h"

namespace fulcrum::storage {

class MappedFeatures final : public kernel::Features {
 public:
  /// Reads every row once, for the norms; compares no checksums (MappedPool::Verify does). InvalidArgument for a sparse
  /// pool. The mapping stays alive as long as this does; up to `keep_bytes` it stays in memory.
  static absl::StatusOr<std::unique_ptr<MappedFeatures>> Open(const MappedPool& pool, ingest::Normalizer normalizer,
                                                              std::size_t keep_bytes = 0);
  /// The same of some of the rows, which count from 0; no other row is read.
  static absl::StatusOr<std::unique_ptr<MappedFeatures>> OpenShare(const MappedPool& pool,
                                                                   ingest::Normalizer normalizer, const RowShare& share,
                                                                   std::size_t keep_bytes = 0);
  /// These rows, followed by those of another pool; only the latter are read. InvalidArgument if they have another
  /// number of features.
  absl::StatusOr<std::unique_ptr<MappedFeatures>> With(const MappedPool& more) const;
  /// The same rows of the files, normalised in another way. Reads every row once, for the norms.
  std::unique_ptr<MappedFeatures> NormalizedWith(ingest::Normalizer normalizer) const;

  kernel::FeatureKind kind() const override { return kernel::FeatureKind::kDense; }
  std::size_t dims() const override { return dims_; }
  kernel::Precision precision() const override { return kernel::Precision::kFloat; }
  kernel::PackedRows Pack(std::span<const RowIndex> rows) const override;
  void CopyRows(std::span<const RowIndex> rows, MatrixView<float> out) const override;
  std::size_t bytes() const override { return StaysInMemory() ? MappingBytes() : 0; }

  const ingest::Normalizer& normalizer() const { return normalizer_; }

 private:
  struct Block {
    std::shared_ptr<arrow::RecordBatch> batch;
    MatrixView<const float> values;
  };

  MappedFeatures(ingest::Normalizer normalizer, std::size_t dims, std::size_t keep_bytes);
  absl::Status Add(const MappedPool& pool, const RowShare& share);
  /// Of the rows from `before` on.
  void ComputeNorms(std::size_t before);
  /// The named rows, normalised, in double precision.
  void CopyNormalized(std::span<const RowIndex> rows, MutableMatrixView out) const;
  template <typename Value>
  void CopyAsTheyAre(std::span<const RowIndex> rows, MatrixView<Value> out) const;
  std::size_t BlockOf(RowIndex row) const;
  std::size_t MappingBytes() const { return first_rows_.back() * dims_ * sizeof(float); }
  bool StaysInMemory() const { return MappingBytes() <= keep_bytes_; }
  void NoteTouched(std::size_t bytes) const;
  void GiveBackPages() const;

  ingest::Normalizer normalizer_;
  std::size_t dims_;
  std::size_t keep_bytes_;
  std::vector<Block> blocks_;
  std::vector<std::size_t> first_rows_ = {0};  // by block, and one more
  mutable std::atomic<std::size_t> touched_bytes_ = 0;
};

}  // namespace fulcrum::storage
