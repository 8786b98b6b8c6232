// A pool from any place, an imported folder or files of any format, and its features for tuning and rounds.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/core/communicator.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/ingest/columns/column_roles.h"
#include "stages/ingest/columns/row_ids.h"
#include "stages/ingest/formats/input_stream.h"
#include "stages/ingest/formats/table_source.h"
#include "stages/ingest/normalize.h"
#include "stages/ingest/pool.h"
#include "stages/kernel/features.h"
#include "storage/pool/mapped_pool.h"
#include "storage/pool/pool_manifest.h"
#include "storage/pool/pool_writer.h"

namespace fulcrum::pipeline {

/// InvalidArgument if roles are given for the columns of an imported pool, which has its own.
absl::Status CheckNoColumnsAreNamed(const std::string& path, const ingest::ColumnOptions& columns);

/// Reads a pool into memory; an imported one through its mapping, its checksums compared on the way.
absl::StatusOr<ingest::Pool> LoadAnyPool(const std::string& path, const ingest::PoolOptions& options);

// A pool's features as the kernels read them: the interface between ingest and the numerical stages.

/// Dense or sparse, as the pool has them.
std::unique_ptr<kernel::Features> MakeFeatures(ingest::PoolFeatures features);

// Imported pools that are better left on the disk: those that would take much of the memory there is.

struct MappedSource {
  storage::MappedPool pool;
  ingest::RowIds ids;
  std::unique_ptr<storage::MappedFeatures> features;
  std::vector<std::string> feature_names;  ///< empty if they have none
  RowShare share;                          ///< that the features have
};

/// The normaliser of an imported pool from its stored statistics. FailedPrecondition if the steps need all rows.
absl::StatusOr<ingest::Normalizer> NormalizerOfPool(const storage::MappedPool& pool,
                                                    const std::vector<ingest::NormalizeStep>& steps);

/// Maps the pool at `path` where it is an imported, dense one whose rows, as doubles, would take more than an eighth of
/// `memory_bytes`, and which can be normalised row by row. Nothing if it should be loaded.
absl::StatusOr<std::optional<MappedSource>> MapLargePool(const std::string& path,
                                                         const std::vector<ingest::NormalizeStep>& steps,
                                                         std::size_t memory_bytes);

/// The same for the share of one of several processes. Whether the pool is mapped depends on its size, not on the
/// share, since kernel values of mapped rows are float32.
absl::StatusOr<std::optional<MappedSource>> MapPoolShare(const std::string& path,
                                                         const std::vector<ingest::NormalizeStep>& steps,
                                                         std::size_t memory_bytes, std::size_t rank, std::size_t ranks);

/// The named rows of an imported, dense pool, ascending, as they are in its files.
absl::StatusOr<Matrix<double>> RowsOfPool(const storage::MappedPool& pool, std::span<const RowIndex> rows);

// Where tuning and rounds get the features of a pool from: rows as they are in the files, and all rows normalised in
// one way or another, with what was learned from the pool. Thread-safe for reading.

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

struct Normalizations {
  std::vector<std::string> names;  ///< the first one is used before they can be compared
  bool texts = false;              ///< with a linear kernel then, instead of an rbf kernel
};

/// Ways to normalise that suit such features. `rows` is how many rows the pool has.
Normalizations NormalizationsFor(const ingest::PoolFeatures& features, std::size_t rows);

/// Makes features dense that are stored sparse but have few zeros, so that a z-score is possible.
void MakeDenseIfWorthwhile(ingest::PoolFeatures& features);

// From files to a pool folder: read, check, write, in order and in bounded memory.
//
//   batches of the sources -> blocks (in parallel) -> the pool's files
//
// The flow is a bounded oneTBB graph: the reader decodes columns in parallel, blocks are made in parallel, and what
// waits between them is a fixed number of batches.

/// How an import is followed and ended early.
struct ImportControl {
  std::stop_token stop = {};  ///< ends it with Cancelled
  /// Told how many rows are in the pool's files so far.
  std::function<void(std::size_t rows)> on_progress = {};
};

struct ImportOptions {
  std::vector<std::string> sources = {};
  std::string folder = {};
  ingest::ColumnOptions columns = {};
  ingest::InputLimits limits = {};
  std::int64_t memory_bytes = std::int64_t{2} << 30;  ///< what the import may use, about
  double max_rejected_share = 0.01;
  bool keep_reasons = true;  ///< if more is rejected: all of it in "FOLDER.rejected.parquet"
  /// Asked, before anything is written, whether rows of this shape and with these features may come.
  std::function<absl::Status(const storage::PoolShape&, const std::vector<std::string>& feature_names)> check_shape =
      {};
  /// It is not an error if all rows are known elsewhere; nothing is written then.
  bool may_add_nothing = false;
  /// Rows that exist elsewhere: with the same content they exist already, with another one they are rejected.
  storage::PoolWriter::FindElsewhere find_elsewhere = {};
  ingest::FileShare share = {};  ///< of the files; a share without any adds nothing
  ImportControl control = {};
};

struct ImportResult {
  storage::PoolWriter::Counts counts = {};
  storage::PoolManifest manifest = {};
  std::vector<std::string> rejected_examples = {};  ///< the first few, each with its place and the reason
};

/// Imports, or adds to the pool that is there; OK when it is on the disk. An error leaves the pool as it was.
absl::StatusOr<ImportResult> ImportPool(const ImportOptions& options);

/// The same by several processes that see the same folders: each imports its share of the files as a part of the pool,
/// and the root puts the parts together, in the order of the files. The pool must not exist yet. An id that several
/// ranks have counts where it comes first, as in one process. Every rank makes the call; the result is at the root. An
/// error is that of all ranks.
absl::StatusOr<ImportResult> ImportPoolTogether(const ImportOptions& options, const Communicator& peers);

}  // namespace fulcrum::pipeline
