// An imported pool, mapped into memory.
//
// Opening reads the manifest and the files' indices, never the rows, so that a pool of any size opens at once; the
// kernel reads what is touched. Immutable and thread-safe after Open. Batches point into the mapping and keep it alive.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "arrow/ipc/type_fwd.h"
#include "arrow/type_fwd.h"
#include "stages/ingest/pool.h"
#include "storage/pool/feature_statistics.h"
#include "storage/pool/pool_manifest.h"
#include "storage/pool/pool_schema.h"

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

}  // namespace fulcrum::storage
