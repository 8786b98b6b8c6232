// An imported pool, mapped into memory.
//
// Opening reads the manifest and the files' indices, never the rows, so that a pool of any size opens at once; the
// kernel reads what is touched. Immutable and thread-safe after Open. Batches point into the mapping and keep it alive.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "arrow/ipc/type_fwd.h"
#include "arrow/type_fwd.h"
#include "stages/core/communicator.h"
#include "stages/core/matrix.h"
#include "stages/ingest/normalize.h"
#include "stages/ingest/pool.h"
#include "stages/kernel/features.h"
#include "storage/pool/pool_manifest.h"

namespace fulcrum::storage {

class MappedPool {
 public:
  /// NotFound for a folder that is not a pool; DataLoss if its files differ from its manifest.
  static absl::StatusOr<MappedPool> Open(const std::string& folder);

  const std::string& folder() const { return folder_; }
  const PoolManifest& manifest() const { return manifest_; }
  const PoolShape& shape() const { return shape_; }
  std::int64_t rows() const { return first_rows_.back(); }
  std::size_t blocks() const { return places_.size(); }
  /// Rows before this block.
  std::int64_t FirstRowOf(std::size_t block) const { return first_rows_[block]; }

  /// The rows of a block, without a copy. DataLoss if Arrow cannot read it.
  absl::StatusOr<std::shared_ptr<arrow::RecordBatch>> Block(std::size_t block) const;
  absl::StatusOr<FeatureStatistics> Statistics() const;
  /// Reads everything and compares the checksums: DataLoss with the first block that has changed.
  absl::Status Verify() const;

  /// The ids of the rows, read when one is looked up; row numbers if the pool has no ids.
  absl::StatusOr<ingest::RowIds> Ids() const;

  /// What an annotator sees of a row; empty if the pool has no payloads.
  absl::StatusOr<std::string> PayloadOf(std::int64_t row) const;
  /// At most `most` bytes of it, from `first` on.
  absl::StatusOr<std::string> PayloadPart(std::int64_t row, std::size_t first, std::size_t most) const;
  /// Its size, without reading it.
  absl::StatusOr<std::size_t> PayloadBytes(std::int64_t row) const;
  /// By row; empty if the pool has none. An unknown cost counts as 0.
  absl::StatusOr<std::vector<double>> Costs() const;

  /// The fingerprint of everything but the id of a row, as PoolBlock has it. Only of pools with ids.
  absl::StatusOr<std::uint64_t> ContentFingerprint(std::int64_t row) const;

  /// Everything in memory, as the numerical stages use it. Ids are read when one is looked up. Dense features have
  /// memory for `spare_rows` more.
  absl::StatusOr<ingest::Pool> Load(bool keep_labels, bool keep_payloads = false, std::size_t spare_rows = 0) const;

 private:
  struct Place {
    std::size_t part = 0;
    int batch = 0;
  };

  std::size_t BlockOf(std::int64_t row) const;
  absl::Status OpenPart(const PoolPart& part);
  absl::Status CheckBlock(std::size_t block, const arrow::RecordBatch& batch) const;

  std::string folder_;
  PoolManifest manifest_;
  PoolShape shape_;
  std::vector<std::shared_ptr<arrow::ipc::RecordBatchFileReader>> readers_;  // by part
  std::vector<Place> places_;                                                // by block
  std::vector<std::int64_t> first_rows_ = {0};                               // by block, and one more
};

// The features of an imported pool as the kernels read them, without loading them into memory.
//
// Rows are float32 in the mapping; they are normalised each time they are copied out, a few hundred at a time, so that
// a pool larger than memory costs eight bytes per row (its squared norms). Pages of the mapping count as memory of this
// process once they are touched, so they are released from time to time; the page cache keeps them if there is room.
// A mapping that may stay in memory as a whole is left alone, which saves the page faults of every pass.
//
// Immutable and thread-safe after Open. Dense pools only.

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
