// Every campaign of one daemon, by name.
//
// A campaign is a folder under DATA/campaigns; those that are there are opened at the start, and one that cannot be is
// kept with the reason, so that it is neither lost nor in the way. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/campaign/campaign.h"
#include "pipeline/campaign/campaign_plan.h"
#include "stages/core/files.h"

namespace fulcrum::pipeline {

struct CampaignBookOptions {
  std::string data_folder = {};
  std::string pool_root = {};
  std::size_t memory_budget = 0;  ///< bytes for pools and rounds; 0: no limit but the machine's
  /// Something changed in this campaign; called on its store's writing thread.
  std::function<void(const std::string& name)> on_change = {};
  /// A campaign's store is over: the process should end.
  std::function<void(const absl::Status&)> on_fatal = {};
  /// A campaign's round ended with a batch; called on the campaign's thread.
  std::function<void(const std::string& name, const CampaignRound::Times&)> on_round = {};
  /// A campaign's commit took so long; called on its store's writing thread.
  std::function<void(const std::string& name, std::chrono::nanoseconds)> on_commit_time = {};
  /// A campaign is gone: nothing more will be told of it.
  std::function<void(const std::string& name)> on_delete = {};
};

class CampaignRegistry {
 public:
  /// Opens what is there. Unavailable where another daemon has the data folder.
  static absl::StatusOr<std::unique_ptr<CampaignRegistry>> Open(CampaignBookOptions options);

  absl::StatusOr<std::shared_ptr<Campaign>> Create(const v1::CampaignSpec& spec);
  /// NotFound without one of this name; why it could not be opened where it could not.
  absl::StatusOr<std::shared_ptr<Campaign>> Find(const std::string& name) const;
  /// Up to `most` campaigns whose names come after `after`, by name. Those that could not be opened are left out.
  std::vector<std::shared_ptr<Campaign>> List(const std::string& after, std::size_t most) const;
  /// Moves the campaign's folder to the trash and says where. FailedPrecondition while it runs.
  absl::StatusOr<std::string> Delete(const std::string& name);
  /// Ends the rounds of all campaigns, so that closing them need not wait for one after the other.
  void RequestStop();
  /// Names and reasons of the campaigns that could not be opened.
  std::map<std::string, absl::Status> broken() const;

 private:
  using Entry = absl::StatusOr<std::shared_ptr<Campaign>>;

  explicit CampaignRegistry(CampaignBookOptions options)
      : options_(std::move(options)), memory_(options_.memory_budget) {}
  std::string FolderOf(const std::string& name) const { return options_.data_folder + "/campaigns/" + name; }
  CampaignServices SurroundingsOf(const std::string& name) const;
  absl::Status OpenAll();

  const CampaignBookOptions options_;
  mutable MemoryBudgetShare memory_;
  std::optional<FileLock> lock_;  // two daemons on one folder would each hold half of the campaigns
  mutable std::mutex mutex_;
  std::map<std::string, Entry> campaigns_;
  std::mutex creating_;  // one at a time: two of the same name must not race
};

// A new campaign's folder: its own pool and an empty log, made under another name first.
//
// Whoever is killed halfway leaves a folder that no campaign can have, and RemoveUnfinishedCampaigns takes it away. One
// thread at a time for each folder.

/// Imports the plan's sources, which must lie inside `root`, and begins the log; on the disk when it is OK.
/// AlreadyExists where the folder is there. An error leaves nothing behind.
absl::Status MakeCampaignFolder(const std::string& folder, const CampaignPlan& plan, const std::string& root);

/// Removes what was left in a folder of campaigns by somebody who was killed while making one.
void RemoveUnfinishedCampaigns(const std::string& campaigns_folder);

}  // namespace fulcrum::pipeline
