// Converts rows for a pool: from a batch as a reader returns it to a block as the pool stores it.
//
// Functions of their arguments; thread-safe, so blocks can be made in parallel.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "arrow/ipc/type_fwd.h"
#include "arrow/type_fwd.h"
#include "stages/core/matrix.h"
#include "stages/ingest/columns/column_roles.h"
#include "stages/ingest/formats/input_stream.h"
#include "storage/pool/pool_manifest.h"

namespace fulcrum::storage {

/// A row that was rejected.
struct RejectedRow {
  std::uint64_t row = 0;  ///< in the batch
  std::string id;         ///< empty if there is none
  std::string column;
  std::string reason;
};

struct PoolBlock {
  std::shared_ptr<arrow::RecordBatch> batch;  ///< with SchemaOf(shape)
  /// By row, of its id and of everything else; empty if there are no ids.
  std::vector<std::uint64_t> id_fingerprints;
  std::vector<std::uint64_t> content_fingerprints;
  /// By row, which one of the source's batch it is.
  std::vector<std::uint32_t> source_rows;
  FeatureStatistics statistics;
  std::uint64_t checksum = 0;
};

struct BuiltBlock {
  PoolBlock block;
  std::vector<RejectedRow> rejected;  ///< ascending by row
};

/// The shape that a table with these roles has in a pool. The widths of lists must be known.
PoolShape ShapeFor(const ingest::ColumnRoles& roles);

/// Turns a batch into a block, leaving out rows with a null, NaN or infinite feature, a list of the wrong length, a
/// value that float32 cannot hold, no id, or text above the limit. Errors are those of a whole column (its type).
absl::StatusOr<BuiltBlock> BuildBlock(const arrow::RecordBatch& batch, const ingest::ColumnRoles& roles,
                                      const ingest::InputLimits& limits);

/// The block with only these rows (ascending positions in it).
absl::StatusOr<PoolBlock> KeepRows(const PoolBlock& block, const std::vector<std::uint32_t>& rows);

/// A block of a batch that is in a pool, with its fingerprints only.
void FingerprintRows(const arrow::RecordBatch& batch, const PoolShape& shape, PoolBlock& block);

// The features of a pool's block as numbers in memory, without a copy. Thread-safe.

/// Of a dense pool: a view of the batch's own memory.
MatrixView<const float> DenseRows(const arrow::RecordBatch& batch, const PoolShape& shape);

/// Of the features of one row, dense or sparse.
std::uint64_t FeatureFingerprint(const arrow::RecordBatch& batch, const PoolShape& shape, std::int64_t row);

// Writes one Arrow IPC file of a pool: one record batch per block, in order, 64-byte aligned and not compressed, so
// that it can be mapped into memory and used in place. Not thread-safe.

class PartWriter {
 public:
  static absl::StatusOr<std::unique_ptr<PartWriter>> Create(const std::string& folder, const std::string& file,
                                                            std::shared_ptr<arrow::Schema> schema);
  ~PartWriter();

  absl::Status Append(const PoolBlock& block);
  /// Ends the file; OK means that it is on disk. Returns its entry in the manifest.
  absl::StatusOr<PoolPart> Finish();
  std::int64_t rows() const { return rows_; }

 private:
  class Stream;

  PartWriter(std::string path, std::string file);

  std::string path_;
  std::string doing_;
  PoolPart part_;
  std::int64_t rows_ = 0;
  std::shared_ptr<Stream> stream_;
  std::shared_ptr<arrow::ipc::RecordBatchWriter> writer_;
};

/// A single small batch as a file, and back. OK means that it is on disk.
absl::Status WriteBatchFile(const std::string& path, const arrow::RecordBatch& batch);
absl::StatusOr<std::shared_ptr<arrow::RecordBatch>> ReadBatchFile(const std::string& path);

// A new file that a separate thread writes sequentially, without the page cache.
//
// Buffers are written directly to the disk: the processor copies the data once, the disk starts with the first buffer,
// and the sync at the end has little left to do. If a file system does not support that, the page cache is used.
// Belongs to one thread.

class DirectFile {
 public:
  /// Creates the file, or truncates an existing one.
  static absl::StatusOr<std::unique_ptr<DirectFile>> Create(const std::string& path);
  /// Without Finish the file is incomplete.
  ~DirectFile();
  DirectFile(const DirectFile&) = delete;
  DirectFile& operator=(const DirectFile&) = delete;

  /// May return the error of an earlier write.
  absl::Status Write(std::string_view bytes);
  /// OK means that everything is on disk and survives a power loss. No Write may follow.
  absl::Status Finish();
  /// Bytes so far.
  std::int64_t size() const { return size_; }

 private:
  struct FreeMemory {
    void operator()(char* bytes) const { std::free(bytes); }
  };
  using Buffer = std::unique_ptr<char, FreeMemory>;
  /// A buffer that is being written.
  struct Piece {
    Buffer buffer;
    std::size_t bytes = 0;
    std::int64_t offset = 0;
  };

  DirectFile(std::string path, int descriptor);
  /// An empty buffer; waits until one is free.
  absl::StatusOr<Buffer> TakeBuffer();
  void Send();
  void WriteAlong();
  absl::Status WritePiece(const Piece& piece) const;
  /// Uses the page cache from now on; false if it did before. Keeps errno.
  bool StopBeingDirect() const;
  absl::Status Error(std::string_view doing) const;

  const std::string path_;
  const int descriptor_;
  std::int64_t size_ = 0;
  Buffer filling_;  // null until something is written
  std::size_t filled_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Buffer> empty_;
  std::deque<Piece> sent_;
  bool ending_ = false;
  absl::Status result_;  // of what was sent so far
  std::thread thread_;   // last: it uses all of the above
};

}  // namespace fulcrum::storage
