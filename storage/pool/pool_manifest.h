// The content of a pool folder: its files, how many rows they have, and the checksum of every block.
//
// The manifest is a small text file and the only thing that makes a folder a pool: it is replaced by a rename after
// everything that it names is on disk. Other files are left over from an import that did not finish. Its last line is a
// checksum of the others. A plain value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "arrow/type_fwd.h"
#include "stages/core/files.h"
#include "stages/core/matrix.h"

namespace fulcrum::storage {

inline constexpr char kPoolManifestName[] = "manifest";

struct PoolBlockRecord {
  std::int64_t rows = 0;
  std::uint64_t checksum = 0;
};

/// An Arrow IPC file of the pool.
struct PoolPart {
  std::string file;
  std::int64_t bytes = 0;
  std::vector<PoolBlockRecord> blocks;

  std::int64_t rows() const;
};

struct PoolManifest {
  std::int64_t features = 0;
  bool sparse = false;
  bool has_ids = false;
  std::int64_t rejected = 0;  ///< rows set aside by all imports
  std::string statistics_file;
  std::vector<std::string> rejected_files;  ///< one per import that set rows aside
  std::vector<PoolPart> parts;

  std::int64_t rows() const;
};

std::string FormatManifest(const PoolManifest& manifest);
/// DataLoss for text that was not written by FormatManifest or has changed since.
absl::StatusOr<PoolManifest> ParseManifest(const std::string& text);

/// NotFound if the folder has no manifest: it is not a pool, or its import did not finish.
absl::StatusOr<PoolManifest> ReadManifest(const std::string& folder);
/// Replaces the manifest.
absl::Status WriteManifest(const std::string& folder, const PoolManifest& manifest);

/// Whether a path is the folder of an imported pool.
bool IsPoolFolder(const std::string& path);

// Copies of imported pools, which share the files if the file system allows it.
//
// Files that a manifest names are never changed, so two folders may share them: a pool that grows gets new files.
// Functions for one thread; others may import into the pool at the same time.

/// Creates the folder `to`, which must not exist, as a pool with the rows that `from` has now: by hard links, or by
/// copies if links are not possible. It appears complete or not at all, and OK means that it is on disk.
absl::Status CopyPool(const std::string& from, const std::string& to);

// The columns of an imported pool's files.
//
//   id        text; absent if rows are identified by their numbers
//   features  lists of float32, all of one length; or, of a sparse pool, `indices` and `values`
//   label     text, null if unknown
//   cost      float64, null if unknown
//   payload   bytes, as in the source: what an annotator sees
//
// A plain value.

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

// Statistics of every feature over all rows of a pool, for z-scores and for people.
//
// Blocks of rows have statistics of their own, which are merged in the order of the rows, so the result does not depend
// on the number of threads (Chan, Golub and LeVeque's update). A plain value.

class FeatureStatistics {
 public:
  FeatureStatistics() = default;
  static FeatureStatistics OfDense(MatrixView<const float> rows);
  /// `columns` and `values` are the elements of `rows` rows; what is not among them is zero.
  static FeatureStatistics OfSparse(std::int64_t rows, std::span<const std::int32_t> columns,
                                    std::span<const float> values);

  /// Adds the rows of a later block. Features that one of the two does not have are zero there.
  void Merge(const FeatureStatistics& other);

  std::int64_t rows() const { return rows_; }
  std::size_t features() const { return means_.size(); }
  const std::vector<double>& means() const { return means_; }
  const std::vector<double>& minima() const { return minima_; }
  const std::vector<double>& maxima() const { return maxima_; }
  /// Sample deviation (n - 1).
  double DeviationOf(std::size_t feature) const;

  /// As a table with one row per feature, and back. `names` may be fewer than there are features. DataLoss for any
  /// other table.
  std::shared_ptr<arrow::RecordBatch> ToBatch(const std::vector<std::string>& names) const;
  static absl::StatusOr<FeatureStatistics> FromBatch(const arrow::RecordBatch& batch, std::int64_t rows);
  /// Empty if the features have none.
  const std::vector<std::string>& names() const { return names_; }

 private:
  void Widen(std::size_t features);

  std::int64_t rows_ = 0;
  std::vector<double> means_;
  std::vector<double> squares_;  // sums of squared distances from the mean
  std::vector<double> minima_;
  std::vector<double> maxima_;
  std::vector<std::string> names_;  // only of those that were read
};

}  // namespace fulcrum::storage
