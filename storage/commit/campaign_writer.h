// What the store's writing thread owns and does: the connection, the ledger, the derived tables.
//
// All methods run on that thread, except status() and health(), which any thread may call.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/campaign_folder.h"
#include "storage/campaign_store.h"
#include "storage/commit/commit_queue.h"
#include "storage/log/high_water.h"
#include "storage/sqlite/sqlite.h"
#include "storage/state/derived_tables.h"
#include "storage/state/ledger.h"

namespace fulcrum::storage {

class CampaignWriter {
 public:
  /// Takes the campaign's lock, opens and migrates its database, and derives its state.
  static absl::StatusOr<std::unique_ptr<CampaignWriter>> Open(const CampaignFolder& folder,
                                                              const StoreOptions& options);
  /// Moves the write-ahead log into the database, unless the store ended with an error: campaign.db alone is complete.
  ~CampaignWriter();
  CampaignWriter(const CampaignWriter&) = delete;
  CampaignWriter& operator=(const CampaignWriter&) = delete;

  /// The first events of a campaign.
  absl::Status RecordCreation(const CampaignSettings& settings);
  /// That the store was opened, and how long the log had been silent.
  absl::Status RecordOpening();

  /// Runs, commits and answers.
  void Commit(OperationGroup& group);
  /// Brings the derived tables up to date.
  absl::Status Flush();
  /// Writes some of what they lack, which takes some milliseconds; false once they are up to date.
  absl::StatusOr<bool> FlushSome();

  const Ledger& ledger() const { return *ledger_; }
  const CampaignFolder& folder() const { return folder_; }
  std::shared_ptr<const CampaignStatus> status() const;
  absl::Status health() const;

 private:
  CampaignWriter(CampaignFolder folder, StoreOptions options, FileLock lock, SqliteDatabase database);

  absl::Status Prepare();
  /// Leaves a note for fsck if the log is known to have held more than it does.
  absl::Status NoteLostEvents();
  void RecordHighWater();
  absl::Status WriteTables(const std::vector<const Item*>& items, bool last);
  void Publish();
  void End(const absl::Status& cause);

  const CampaignFolder folder_;
  const StoreOptions options_;
  const FileLock lock_;
  const AnchoredClock own_clock_;
  SqliteDatabase database_;
  std::optional<DerivedTables> tables_;
  std::optional<Ledger> ledger_;
  std::optional<GroupCommit> group_commit_;
  std::optional<HighWaterFile> high_water_;
  std::vector<absl::Status> results_;

  mutable std::mutex mutex_;
  std::shared_ptr<const CampaignStatus> published_;
  absl::Status health_;
};

}  // namespace fulcrum::storage
