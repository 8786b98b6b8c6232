// Writes rows into a pool folder: all of them or none.
//
// A new pool grows in "FOLDER.importing" and is renamed when it is whole. An existing one gets files that its manifest
// does not name yet; replacing the manifest is what adds them. A process that dies leaves things that no reader looks
// at and the next import clears away, and what a pool has, a loss of power does not take away. One writer a folder, by
// a lock. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/core/file_lock.h"
#include "stages/core/status_macros.h"
#include "storage/pool/feature_statistics.h"
#include "storage/pool/known_rows.h"
#include "storage/pool/part_writer.h"
#include "storage/pool/pool_block.h"
#include "storage/pool/pool_manifest.h"
#include "storage/pool/rejected_rows.h"

namespace fulcrum::storage {

class MappedPool;

/// Adds a block's rows, or a whole pool's after comparing its checksums, to those that are known.
void NoteRows(const PoolBlock& block, KnownRows& known);
absl::Status NoteRows(const MappedPool& pool, KnownRows& known);

class PoolWriter {
 public:
  struct Counts {
    std::int64_t read = 0;
    std::int64_t added = 0;
    std::int64_t there_already = 0;  ///< the same id with the same content
    std::int64_t rejected = 0;
  };

  /// Begins a pool, or goes on with the one that is there. FailedPrecondition where rows of this shape do not fit it,
  /// or where it has no ids and so nobody can tell what is new; Unavailable where another process writes to it.
  static absl::StatusOr<std::unique_ptr<PoolWriter>> Open(const std::string& folder, const PoolShape& shape,
                                                          std::vector<std::string> feature_names);
  /// Without Commit, nothing of it is left.
  ~PoolWriter();

  /// Rows that are elsewhere already, besides those of this pool. Before the first Append.
  void AddKnown(KnownRows rows) { known_.Merge(std::move(rows)); }

  /// The rows of one batch of a source. `place_of_row` says where a row of it was: std::string(uint64 row in the
  /// batch).
  template <typename PlaceOfRow>
  absl::Status Append(BuiltBlock built, const PlaceOfRow& place_of_row) {
    counts_.read += static_cast<std::int64_t>(built.block.source_rows.size() + built.rejected.size());
    FULCRUM_RETURN_IF_ERROR(DropKnownRows(built));
    for (RejectedRow& row : built.rejected) {
      std::string place = place_of_row(row.row);
      FULCRUM_RETURN_IF_ERROR(rejected_->Add(std::move(row), std::move(place)));
    }
    counts_.rejected = rejected_->count();
    return AppendBlock(built.block);
  }

  /// Makes the rows part of the pool: OK means that they are, and on the disk. DataLoss where more than this share of
  /// the rows was rejected: the pool is as before, and they stay in "FOLDER.rejected.parquet" where the reasons are to
  /// be kept.
  absl::Status Commit(double max_rejected_share, bool keep_reasons = true);

  const Counts& counts() const { return counts_; }
  /// The first few rows that were rejected, each with its place, its column and the reason.
  const std::vector<std::string>& rejected_examples() const { return rejected_->examples(); }
  /// Of the pool with the new rows.
  const PoolManifest& manifest() const { return manifest_; }

 private:
  PoolWriter(std::string folder, PoolShape shape, std::vector<std::string> feature_names);
  absl::Status Begin();
  absl::Status Continue();
  absl::Status OpenFiles();
  absl::Status DropKnownRows(BuiltBlock& built);
  absl::Status AppendBlock(const PoolBlock& block);
  absl::Status RejectAll(bool keep_reasons);
  absl::Status FinishFiles();
  absl::Status Publish();
  void RemoveLeftovers() const;

  std::string folder_;
  std::string work_folder_;  // where files are written: beside a new pool, inside an old one
  PoolShape shape_;
  std::vector<std::string> feature_names_;
  std::optional<FileLock> lock_;
  PoolManifest manifest_;
  FeatureStatistics statistics_;
  KnownRows known_;
  std::unique_ptr<PartWriter> part_;
  std::unique_ptr<RejectedRows> rejected_;
  Counts counts_;
  bool is_new_ = true;
  bool committed_ = false;
};

}  // namespace fulcrum::storage
