// What the writing thread of a store owns and does: the connection, the ledger, the commits and the checkpoints.
//
// Commit is the whole path of a group of operations: begin a transaction, run the operations, each of which appends its
// events to the log and applies them, commit, publish, answer. If the commit fails, the state goes back to what it was;
// the log is not read again. All methods run on that thread, except status(), health() and Now(), which are
// thread-safe.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/campaign_folder.h"
#include "storage/campaign_store.h"
#include "storage/checkpoint/checkpoint.h"
#include "storage/commit/commit_queue.h"
#include "storage/log/event_log.h"
#include "storage/sqlite/sqlite.h"
#include "storage/state/ledger.h"

namespace fulcrum::storage {

class CampaignWriter {
 public:
  /// Takes the lock of the campaign, opens its database, upgrades the schema, and reads the state.
  static absl::StatusOr<std::unique_ptr<CampaignWriter>> Open(const CampaignFolder& folder,
                                                              const StoreOptions& options);
  /// Moves the write-ahead log into the database, unless the store ended with an error: campaign.db alone is complete.
  ~CampaignWriter();
  CampaignWriter(const CampaignWriter&) = delete;
  CampaignWriter& operator=(const CampaignWriter&) = delete;

  /// Writes the first events of a campaign.
  absl::Status RecordCreation(const CampaignSettings& settings);
  /// Records that the store was opened, and for how long it was closed.
  absl::Status RecordOpening();

  /// Runs, commits and answers. An operation that is refused changes nothing. If writing one fails, the group is rolled
  /// back and runs again without it. A full disk or a busy database fails the group; any other error of the disk ends
  /// the store, because after a failed fsync it is unknown what is on disk.
  void Commit(OperationGroup& group);
  /// Brings the checkpoint up to the last event.
  absl::Status WriteCheckpoint();
  /// Writes some of what the checkpoint lacks, which takes a few milliseconds; false once it is complete.
  absl::StatusOr<bool> WriteSomeOfCheckpoint();

  const Ledger& ledger() const { return *ledger_; }
  const CampaignFolder& folder() const { return folder_; }
  /// What RecordOpening found; does not change after it.
  const OpeningFindings& findings() const { return findings_; }
  std::shared_ptr<const CampaignStatus> status() const;
  absl::Status health() const;
  /// Thread-safe too.
  Time Now() const { return std::max(clock().Now(), status()->last_time); }

 private:
  CampaignWriter(CampaignFolder folder, StoreOptions options, FileLock lock, SqliteDatabase database);

  const Clock& clock() const { return options_.clock != nullptr ? *options_.clock : own_clock_; }
  absl::Status Prepare();
  /// Fills results_, one per operation. Not OK if the store must end.
  absl::Status WriteGroup(const OperationGroup& group);
  /// The operation whose writing failed, if any. Those in `left_out` are not run.
  std::optional<std::size_t> RunOperations(const OperationGroup& group, const std::vector<bool>& left_out);
  /// Compares the log with the high-water file. A loss is added to the file of losses, which stays until an
  /// administrator deletes it: from now on the log looks complete.
  absl::Status NoteLostEvents();
  void RecordHighWater();
  void Publish();
  void End(const absl::Status& cause);

  const CampaignFolder folder_;
  const StoreOptions options_;
  const FileLock lock_;
  const AnchoredClock own_clock_;
  SqliteDatabase database_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::optional<Ledger> ledger_;
  std::optional<HighWaterFile> high_water_;
  std::vector<absl::Status> results_;
  OpeningFindings findings_;

  mutable std::mutex mutex_;
  std::shared_ptr<const CampaignStatus> published_;
  absl::Status health_;
};

}  // namespace fulcrum::storage
