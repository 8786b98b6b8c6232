#include "pipeline/campaign/campaign_registry.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "fulcrum/v1/campaign_spec.pb.h"
#include "pipeline/campaign/campaign_pool.h"
#include "pipeline/campaign/pool_growth.h"
#include "pipeline/text/structured_log.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"
#include "storage/campaign_store.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::chrono::milliseconds kTick{20};
constexpr int kMostTicks = 250;
constexpr std::chrono::milliseconds kLongestReopenTime{300'000};
constexpr std::chrono::seconds kRoundEndTime{5};

absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("cannot make the folder '", path, "': ", error.message()));
}

absl::Status NoSuchCampaign(const std::string& name) {
  return absl::NotFoundError(
      absl::StrCat("there is no campaign '", name, "'; `fulcrum campaign list` shows those there are"));
}

v1::Campaign DescribeEntry(const std::string& name, const absl::StatusOr<std::shared_ptr<Campaign>>& entry) {
  if (entry.ok()) return (*entry)->Describe();
  v1::Campaign campaign;
  campaign.set_name(name);
  campaign.set_state(v1::CAMPAIGN_STATE_BROKEN);
  campaign.set_state_reason(absl::StrCat("it cannot be opened: ", entry.status().message()));
  return campaign;
}

}  // namespace

CampaignServices CampaignRegistry::SurroundingsOf(const std::string& name) const {
  CampaignServices surroundings;
  surroundings.pool_root = options_.pool_root;
  surroundings.memory = &memory_;
  surroundings.on_change = [this, name] {
    if (options_.on_change) options_.on_change(name);
  };
  surroundings.on_fatal = options_.on_fatal;
  surroundings.on_round = [this, name](const CampaignRound::Times& times) {
    if (options_.on_round) options_.on_round(name, times);
  };
  surroundings.on_commit_time = [this, name](std::chrono::nanoseconds taken) {
    if (options_.on_commit_time) options_.on_commit_time(name, taken);
  };
  return surroundings;
}

absl::StatusOr<std::unique_ptr<CampaignRegistry>> CampaignRegistry::Open(CampaignBookOptions options) {
  std::unique_ptr<CampaignRegistry> book(new CampaignRegistry(std::move(options)));
  FULCRUM_RETURN_IF_ERROR(MakeFolder(book->options_.data_folder + "/campaigns"));
  absl::StatusOr<FileLock> lock = FileLock::Take(book->options_.data_folder);
  if (!lock.ok()) {
    return absl::Status(
        lock.status().code(),
        absl::StrCat("another daemon has the data folder '", book->options_.data_folder,
                     "': stop it first, or give this one a folder of its own (", lock.status().message(), ")"));
  }
  book->lock_.emplace(*std::move(lock));
  FULCRUM_RETURN_IF_ERROR(book->OpenAll());
  book->reopener_ = std::jthread([&it = *book](const std::stop_token& stop) { it.RetryBroken(stop); });
  return book;
}

absl::Status CampaignRegistry::OpenAll() {
  RemoveUnfinishedCampaigns(options_.data_folder + "/campaigns");
  std::error_code error;
  const std::filesystem::directory_iterator folders(options_.data_folder + "/campaigns", error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot read '", options_.data_folder, "': ", error.message()));
  for (const auto& folder : folders) {
    const std::string name = folder.path().filename().string();
    if (!CheckCampaignName(name).ok()) continue;
    campaigns_.emplace(name, Campaign::Open(FolderOf(name), SurroundingsOf(name)));
  }
  return absl::OkStatus();
}

void CampaignRegistry::RetryBroken(const std::stop_token& stop) {
  std::chrono::milliseconds pause = options_.reopen_time;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      stopping_.wait_for(lock, stop, pause, [] { return false; });
    }
    const std::map<std::string, absl::Status> before = broken();
    pause = before.empty() ? options_.reopen_time : std::min(2 * pause, kLongestReopenTime);
    for (const auto& [name, reason] : before) {
      const std::scoped_lock creating(creating_);
      if (stop.stop_requested()) return;
      if (!broken().contains(name)) continue;
      Entry opened = Campaign::Open(FolderOf(name), SurroundingsOf(name));
      if (opened.ok()) Log(LogLevel::kInfo, "campaign opened", {{"campaign", name}});
      const std::scoped_lock lock(mutex_);
      campaigns_.insert_or_assign(name, std::move(opened));
    }
    if (stop.stop_requested()) return;
  }
}

absl::StatusOr<std::shared_ptr<Campaign>> CampaignRegistry::Create(const v1::CampaignSpec& spec) {
  FULCRUM_RETURN_IF_ERROR(PlanCampaign(spec).status());
  const std::scoped_lock creating(creating_);
  {
    const std::scoped_lock lock(mutex_);
    if (campaigns_.contains(spec.name())) {
      return absl::AlreadyExistsError(
          absl::StrCat("there is a campaign '", spec.name(), "' already; choose another name or delete it"));
    }
  }
  FULCRUM_ASSIGN_OR_RETURN(auto campaign, Campaign::Create(FolderOf(spec.name()), spec, SurroundingsOf(spec.name())));
  const std::scoped_lock lock(mutex_);
  campaigns_.emplace(spec.name(), campaign);
  return campaign;
}

absl::StatusOr<std::shared_ptr<Campaign>> CampaignRegistry::Find(const std::string& name) const {
  const std::scoped_lock lock(mutex_);
  const auto found = campaigns_.find(name);
  if (found == campaigns_.end()) return NoSuchCampaign(name);
  return found->second;
}

std::vector<std::shared_ptr<Campaign>> CampaignRegistry::List(const std::string& after, std::size_t most) const {
  const std::scoped_lock lock(mutex_);
  std::vector<std::shared_ptr<Campaign>> listed;
  for (auto entry = campaigns_.upper_bound(after); entry != campaigns_.end() && listed.size() < most; ++entry) {
    if (entry->second.ok()) listed.push_back(*entry->second);
  }
  return listed;
}

absl::StatusOr<v1::Campaign> CampaignRegistry::Describe(const std::string& name) const {
  const std::scoped_lock lock(mutex_);
  const auto found = campaigns_.find(name);
  if (found == campaigns_.end()) return NoSuchCampaign(name);
  return DescribeEntry(name, found->second);
}

std::vector<v1::Campaign> CampaignRegistry::DescribeAll(const std::string& after, std::size_t most) const {
  const std::scoped_lock lock(mutex_);
  std::vector<v1::Campaign> listed;
  for (auto entry = campaigns_.upper_bound(after); entry != campaigns_.end() && listed.size() < most; ++entry) {
    listed.push_back(DescribeEntry(entry->first, entry->second));
  }
  return listed;
}

void CampaignRegistry::RequestStop() {
  reopener_.request_stop();
  const std::scoped_lock lock(mutex_);
  for (const auto& [name, entry] : campaigns_) {
    if (entry.ok()) (*entry)->RequestStop();
  }
}

std::map<std::string, absl::Status> CampaignRegistry::broken() const {
  const std::scoped_lock lock(mutex_);
  std::map<std::string, absl::Status> reasons;
  for (const auto& [name, entry] : campaigns_) {
    if (!entry.ok()) reasons.emplace(name, entry.status());
  }
  return reasons;
}

std::vector<std::string> CampaignRegistry::quarantined() const {
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, entry] : campaigns_) {
    if (entry.ok() && (*entry)->quarantined() && !(*entry)->over()) names.push_back(name);
  }
  return names;
}

std::vector<std::string> CampaignRegistry::Close(std::chrono::steady_clock::time_point until) {
  RequestStop();
  if (reopener_.joinable()) reopener_.join();
  std::map<std::string, Entry> campaigns;
  {
    const std::scoped_lock lock(mutex_);
    campaigns.swap(campaigns_);
  }
  std::vector<std::string> stuck;
  for (auto& [name, entry] : campaigns) {
    if (!entry.ok()) continue;
    const bool ended = (*entry)->WaitForRound(until);
    // Requests in its queue hold it as well. Its last owner must not be the thread of its own store.
    while (ended && (*entry).use_count() > 1 && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (ended && (*entry).use_count() == 1) {
      entry = absl::CancelledError("closed");
      continue;
    }
    if (!ended) stuck.push_back(name);
    // It must outlive this call: its thread uses it, and the destructor would wait for the thread.
    new std::shared_ptr<Campaign>(*std::move(entry));
  }
  return stuck;
}

absl::StatusOr<std::string> CampaignRegistry::MoveToTrash(const std::string& name) const {
  FULCRUM_RETURN_IF_ERROR(MakeFolder(options_.data_folder + "/trash"));
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  const std::string first = absl::StrCat(options_.data_folder, "/trash/", name, "-", seconds.count());
  std::string trash = first;
  // The same name may be deleted several times within a second. Only this daemon writes here, one deletion at a time.
  for (int copy = 2; std::filesystem::exists(trash); ++copy) trash = absl::StrCat(first, "-", copy);
  std::error_code error;
  std::filesystem::rename(FolderOf(name), trash, error);
  if (!error) return trash;
  return absl::UnavailableError(
      absl::StrCat("cannot move the folder of '", name, "' to '", trash, "': ", error.message()));
}

absl::StatusOr<std::string> CampaignRegistry::Delete(const std::string& name) {
  const std::scoped_lock creating(creating_);
  if (!broken().contains(name)) {
    FULCRUM_ASSIGN_OR_RETURN(std::shared_ptr<Campaign> campaign, Find(name));
    if (campaign->offers_tasks()) {
      return absl::FailedPreconditionError(absl::StrCat("campaign '", name, "' is running; stop it first"));
    }
    campaign->CancelRound();
    if (!campaign->WaitForRound(std::chrono::steady_clock::now() + kRoundEndTime)) {
      return absl::UnavailableError(
          absl::StrCat("the round of campaign '", name, "' does not end; try again later, or restart the daemon"));
    }
    {
      const std::scoped_lock lock(mutex_);
      campaigns_.erase(name);
    }
    // Calls that are being answered still hold it. It must end here and not on the thread of its own store.
    for (int tick = 0; campaign.use_count() > 1; ++tick) {
      if (tick == kMostTicks) {
        const std::scoped_lock lock(mutex_);
        campaigns_.emplace(name, campaign);
        return absl::UnavailableError(
            absl::StrCat("campaign '", name, "' is still in use by somebody who watches or labels; try again"));
      }
      std::this_thread::sleep_for(kTick);
    }
    campaign.reset();
  }
  absl::StatusOr<std::string> trash = MoveToTrash(name);
  if (trash.ok() && options_.on_delete) options_.on_delete(name);
  // A campaign whose folder is still in its place stays one.
  Entry again = absl::CancelledError("deleted");
  if (!trash.ok()) again = Campaign::Open(FolderOf(name), SurroundingsOf(name));
  const std::scoped_lock lock(mutex_);
  if (trash.ok()) {
    campaigns_.erase(name);
  } else {
    campaigns_.insert_or_assign(name, std::move(again));
  }
  return trash;
}

namespace {

namespace fs = std::filesystem;

// A dot cannot be part of a campaign's name.
constexpr char kUnfinished[] = ".unfinished";

}  // namespace

absl::Status MakeCampaignFolder(const std::string& folder, const CampaignPlan& plan, const std::string& root) {
  std::error_code error;
  if (fs::exists(folder, error)) {
    return absl::AlreadyExistsError(absl::StrCat("'", folder, "' exists already; choose another name"));
  }
  if (!plan.watch.empty()) FULCRUM_RETURN_IF_ERROR(ResolveWatchedFolder({plan.name, plan.watch, root}).status());
  const storage::CampaignFolder unfinished(absl::StrCat(folder, kUnfinished));
  fs::remove_all(unfinished.path(), error);
  const absl::Cleanup remove_unfinished = [&] { fs::remove_all(unfinished.path(), error); };
  FULCRUM_RETURN_IF_ERROR(unfinished.Create());
  FULCRUM_RETURN_IF_ERROR(ImportOwnPool(plan, root, unfinished));
  FULCRUM_RETURN_IF_ERROR(storage::CampaignStore::Create(unfinished.path(), plan.settings).status());
  fs::rename(unfinished.path(), folder, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot put '", folder, "' in its place: ", error.message()));
  return SyncFolder(fs::path(folder).parent_path().string());
}

void RemoveUnfinishedCampaigns(const std::string& campaigns_folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(campaigns_folder, error)) {
    if (entry.path().extension() == kUnfinished) fs::remove_all(entry.path(), error);
  }
}

}  // namespace fulcrum::pipeline
