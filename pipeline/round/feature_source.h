// Where tuning and rounds get the features of a pool from: rows as they are in the files, and all rows normalised in
// one way or another, with what was learned from the pool. Thread-safe for reading.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/ingest/normalize.h"
#include "stages/ingest/pool.h"
#include "stages/kernel/features.h"
#include "storage/pool/mapped_pool.h"

namespace fulcrum::pipeline {

/// A pool that was normalised in one way. The members may share their owner.
struct PreparedFeatures {
  std::shared_ptr<const kernel::Features> pool;
  /// Begins with the pool's rows; what follows, such as a test set, is predicted along.
  std::shared_ptr<const kernel::Features> predicted;
};

/// Where tuning and rounds get a pool's features from. Thread-safe for reading.
class FeatureSource {
 public:
  virtual ~FeatureSource() = default;
  virtual std::size_t rows() const = 0;
  /// How many of the first rows normalisers and distances are learned from. Rows that come later change neither.
  virtual std::size_t learned_rows() const { return rows(); }
  /// The named rows as they are in the files.
  virtual absl::StatusOr<ingest::PoolFeatures> RawRows(std::span<const RowIndex> rows) const = 0;
  /// Learned from the pool. FailedPrecondition if this pool cannot be normalised in this way.
  virtual absl::StatusOr<std::shared_ptr<const ingest::Normalizer>> NormalizerFor(
      const std::string& normalize) const = 0;
  /// All rows, normalised.
  virtual absl::StatusOr<PreparedFeatures> Prepare(const std::string& normalize) const = 0;
};

/// A source for a pool in memory, which must outlive it.
class MemoryFeatureSource final : public FeatureSource {
 public:
  explicit MemoryFeatureSource(const ingest::PoolFeatures& features) : features_(features) {}
  std::size_t rows() const override { return features_.rows(); }
  absl::StatusOr<ingest::PoolFeatures> RawRows(std::span<const RowIndex> rows) const override;
  absl::StatusOr<std::shared_ptr<const ingest::Normalizer>> NormalizerFor(const std::string& normalize) const override;
  absl::StatusOr<PreparedFeatures> Prepare(const std::string& normalize) const override;

 private:
  const ingest::PoolFeatures& features_;
};

/// A source for an imported pool that stays on the disk. `first` is the pool that normalisers are learned from, `raw`
/// are its rows, and possibly more, without normalisation. Both must outlive it.
class MappedFeatureSource final : public FeatureSource {
 public:
  MappedFeatureSource(const storage::MappedFeatures& raw, const storage::MappedPool& first)
      : raw_(raw), first_(first) {}
  std::size_t rows() const override { return raw_.rows(); }
  absl::StatusOr<ingest::PoolFeatures> RawRows(std::span<const RowIndex> rows) const override;
  absl::StatusOr<std::shared_ptr<const ingest::Normalizer>> NormalizerFor(const std::string& normalize) const override;
  absl::StatusOr<PreparedFeatures> Prepare(const std::string& normalize) const override;

 private:
  const storage::MappedFeatures& raw_;
  const storage::MappedPool& first_;
};

/// 0, 1, ..., count - 1.
RowList AllRows(std::size_t count);

/// Copies the named rows, in their order.
Matrix<double> CopyRows(ConstMatrixView features, std::span<const RowIndex> rows);
SparseMatrix CopyRows(const SparseMatrix& features, std::span<const RowIndex> rows);

/// Makes features dense that are stored sparse but have few zeros, so that a z-score is possible.
void MakeDenseIfWorthwhile(ingest::PoolFeatures& features);

}  // namespace fulcrum::pipeline
