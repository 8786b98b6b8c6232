// Writes rows into a pool folder: all of them or none.
//
// A new pool is written to "FOLDER.importing" and renamed when it is complete. An existing one gets files that its
// manifest does not name yet; replacing the manifest adds them. What a killed process leaves is ignored by readers and
// removed by the next import; committed rows survive a power loss. One writer per folder, by a lock. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "arrow/io/type_fwd.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"
#include "storage/pool/pool_block.h"
#include "storage/pool/pool_manifest.h"

namespace parquet::arrow {
class FileWriter;
}  // namespace parquet::arrow

namespace fulcrum::storage {

// Rows that an import set aside, with their place and the reason: rejected.parquet. Not thread-safe.
//
// The file is created with the first row. Rows are written in row groups, so that memory is bounded.

class RejectedRows {
 public:
  explicit RejectedRows(std::string path);
  ~RejectedRows();

  /// `place` says where the row was in its source.
  absl::Status Add(RejectedRow row, std::string place);
  /// Ends the file; OK means that it is on disk. Nothing happens without rows.
  absl::Status Finish();

  std::int64_t count() const { return count_; }
  const std::string& path() const { return path_; }
  /// The first few, for a message.
  const std::vector<std::string>& examples() const { return examples_; }

 private:
  absl::Status Flush();
  absl::Status Open();

  std::string path_;
  std::string doing_;
  std::int64_t count_ = 0;
  std::vector<std::string> examples_;
  std::vector<RejectedRow> rows_;
  std::vector<std::string> places_;
  std::shared_ptr<arrow::io::FileOutputStream> stream_;
  std::unique_ptr<parquet::arrow::FileWriter> writer_;
};

// The rows that a pool has, by the fingerprints of their ids, to tell new ones from old ones. Not thread-safe.
//
// 64 bits per id: among 20 million rows the chance that two different ids are taken for one is one in 90,000, and
// then a row is set aside with a reason, not lost. In shards, so that growing copies a 64th at a time.

class KnownRows {
 public:
  enum class Verdict { kNew, kSame, kOther };

  /// Whether a row with this id is known, with this content or another; a new one is added.
  Verdict Add(std::uint64_t id, std::uint64_t content) {
    const auto [found, inserted] = shards_[id >> kShift].try_emplace(id, content);
    if (inserted) return Verdict::kNew;
    return found->second == content ? Verdict::kSame : Verdict::kOther;
  }
  bool Has(std::uint64_t id) const { return shards_[id >> kShift].contains(id); }

 private:
  static constexpr int kShift = 58;
  std::array<absl::flat_hash_map<std::uint64_t, std::uint64_t>, 64> shards_;
};

class MappedPool;

/// Adds a block's rows, or a whole pool's after comparing its checksums, to those that are known.
void NoteRows(const PoolBlock& block, KnownRows& known);
absl::Status NoteRows(const MappedPool& pool, KnownRows& known);

// A new pool that several processes write together, each a pool of its own in a folder inside that of the new one.
// Until Publish it is in "FOLDER.importing", like any new pool.

class JointPool {
 public:
  /// FailedPrecondition if there is something at `folder` already, Unavailable if another import writes to it. What an
  /// import left that was killed is removed. Without Publish nothing is left.
  static absl::StatusOr<JointPool> Begin(const std::string& folder);
  JointPool(JointPool&& other) noexcept : folder_(std::move(other.folder_)), lock_(std::move(other.lock_)) {
    other.folder_.clear();
  }
  ~JointPool();

  /// The pools of some processes, in their order, become the parts of the new one; OK means that it is on disk.
  absl::StatusOr<PoolManifest> Publish(const std::vector<std::size_t>& processes);

 private:
  JointPool(std::string folder, FileLock lock) : folder_(std::move(folder)), lock_(std::move(lock)) {}
  std::string folder_;  // empty: nothing to remove
  FileLock lock_;
};

/// Where a process puts its pool.
std::string FolderInJointPool(const std::string& folder, std::size_t process);

class PoolWriter {
 public:
  struct Counts {
    std::int64_t read = 0;
    std::int64_t added = 0;
    std::int64_t existing = 0;  ///< the same id with the same content
    std::int64_t rejected = 0;
  };

  /// Starts a pool, or continues an existing one. FailedPrecondition if rows of this shape do not fit it, or if it has
  /// no ids, by which new rows are recognized; Unavailable if another process writes to it.
  static absl::StatusOr<std::unique_ptr<PoolWriter>> Open(const std::string& folder, const PoolShape& shape,
                                                          std::vector<std::string> feature_names);
  /// Without Commit, nothing is left of it.
  ~PoolWriter();

  /// The fingerprint of the content of a row that exists elsewhere, by its id; nothing if there is none.
  using FindElsewhere = std::function<absl::StatusOr<std::optional<std::uint64_t>>(absl::string_view id)>;
  /// Rows that exist elsewhere, in addition to those of this pool. Before the first Append.
  void SetElsewhere(FindElsewhere find) { elsewhere_ = std::move(find); }

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

  /// Makes the rows part of the pool; OK means that they are on disk. DataLoss if more than this share of the rows was
  /// rejected: the pool is as before, and the rejected rows stay in "FOLDER.rejected.parquet" if the reasons are to be
  /// kept.
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
  std::string work_folder_;  // where files are written: next to a new pool, inside an existing one
  PoolShape shape_;
  std::vector<std::string> feature_names_;
  std::optional<FileLock> lock_;
  PoolManifest manifest_;
  FeatureStatistics statistics_;
  KnownRows known_;
  FindElsewhere elsewhere_;
  std::unique_ptr<PartWriter> part_;
  std::unique_ptr<RejectedRows> rejected_;
  Counts counts_;
  bool is_new_ = true;
  bool committed_ = false;
};

}  // namespace fulcrum::storage
