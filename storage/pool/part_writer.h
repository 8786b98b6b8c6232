// Writes one Arrow IPC file of a pool: a record batch a block, in order, 64-byte aligned and not compressed, so that
// it can be mapped into memory and used where it lies. Not thread-safe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "arrow/ipc/type_fwd.h"
#include "arrow/type_fwd.h"
#include "storage/pool/pool_block.h"
#include "storage/pool/pool_manifest.h"

namespace fulcrum::storage {

class PartWriter {
 public:
  static absl::StatusOr<std::unique_ptr<PartWriter>> Create(const std::string& folder, const std::string& file,
                                                            std::shared_ptr<arrow::Schema> schema);
  ~PartWriter();

  absl::Status Append(const PoolBlock& block);
  /// Ends the file, which is on the disk then. What the manifest must say about it.
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

/// A single small batch as a file of its own, on the disk when it is OK, and back.
absl::Status WriteBatchFile(const std::string& path, const arrow::RecordBatch& batch);
absl::StatusOr<std::shared_ptr<arrow::RecordBatch>> ReadBatchFile(const std::string& path);

}  // namespace fulcrum::storage
