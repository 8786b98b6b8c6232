#include "pipeline/campaign/campaign_registry.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "fulcrum/v1/campaign_spec.pb.h"
#include "pipeline/campaign/crash_marker.h"
#include "pipeline/campaign/pool/campaign_pool.h"
#include "pipeline/campaign/pool/pool_growth.h"
#include "pipeline/text/status.h"
#include "pipeline/text/structured_log.h"
#include "stages/core/files.h"
#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"
#include "storage/campaign_store.h"

namespace fulcrum::pipeline {
namespace {

// How long the calls and the round of a campaign that is deleted have to end.
constexpr std::chrono::seconds kClosingTime{5};

absl::Status NoSuchCampaign(const std::string& name) {
  return absl::NotFoundError(absl::StrCat("no campaign '", name, "'; `fulcrum campaign list` lists the existing ones"));
}

v1::Campaign DescribeHandle(const std::string& name, const absl::StatusOr<std::shared_ptr<Campaign>>& handle,
                            bool fully) {
  if (handle.ok() && *handle != nullptr) return fully ? (*handle)->DescribeFully() : (*handle)->Describe();
  v1::Campaign campaign;
  campaign.set_name(name);
  campaign.set_state(handle.ok() ? v1::CAMPAIGN_STATE_CLOSING : v1::CAMPAIGN_STATE_BROKEN);
  if (!handle.ok()) campaign.set_state_reason(absl::StrCat("it cannot be opened: ", handle.status().message()));
  return campaign;
}

constexpr char kDeletionFile[] = "/deleted_by";

std::string DeletionText(const ChangeOrder& order) {
  return absl::StrCat(order.by, "\n", order.request_id, "\n");
}

}  // namespace

absl::StatusOr<std::shared_ptr<Campaign>> CampaignRegistry::HandleOf(const Entry& entry) {
  if (!entry.ok()) return entry.status();
  return (*entry)->handle();
}

CampaignRegistry::NameClaim::~NameClaim() {
  if (registry_ == nullptr) return;
  const std::scoped_lock lock(registry_->mutex_);
  registry_->changing_.erase(name_);
}

absl::StatusOr<CampaignRegistry::NameClaim> CampaignRegistry::Claim(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  if (changing_.insert(name).second) return NameClaim(*this, name);
  return absl::AbortedError(absl::StrCat("campaign '", name, "' is being created, opened or deleted; try again"));
}

absl::Status CampaignRegistry::CheckUploads(const v1::CampaignSpec& spec) const {
  if (options_.pools.uploads == nullptr) return absl::OkStatus();
  for (const auto& sources : {spec.pool().sources(), spec.stop().accuracy().sources()}) {
    for (const std::string& source : sources) {
      const std::string id = UploadIdOf(source);
      if (!id.empty()) FULCRUM_RETURN_IF_ERROR(options_.pools.uploads->Use(id).status());
    }
  }
  return absl::OkStatus();
}

bool CampaignRegistry::Contains(const std::string& name) const {
  const std::scoped_lock lock(mutex_);
  return campaigns_.contains(name);
}

absl::Status CampaignRegistry::CheckRoom() const {
  const std::scoped_lock lock(mutex_);
  if (campaigns_.size() < options_.most_campaigns) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the server has ", campaigns_.size(),
      " campaigns, which is its limit; delete one, or raise 'limits.campaigns' in the server's configuration"));
}

absl::StatusOr<std::shared_ptr<Campaign>> CampaignRegistry::Create(const v1::CampaignSpec& spec,
                                                                   const ImportControl& control) {
  FULCRUM_ASSIGN_OR_RETURN(const CampaignPlan plan, PlanCampaign(spec));
  FULCRUM_RETURN_IF_ERROR(CheckLauncher(plan));
  FULCRUM_ASSIGN_OR_RETURN(const NameClaim claim, Claim(spec.name()));
  if (Contains(spec.name())) {
    return absl::AlreadyExistsError(
        absl::StrCat("there is a campaign '", spec.name(), "' already; choose another name or delete it"));
  }
  FULCRUM_RETURN_IF_ERROR(CheckRoom());
  FULCRUM_ASSIGN_OR_RETURN(auto campaign,
                           Campaign::Create(FolderOf(spec.name()), spec, ServicesOf(spec.name()), control));
  Log(LogLevel::kInfo, "campaign created",
      {{"campaign", spec.name()}, {"rows", static_cast<std::int64_t>(campaign->Describe().pool_rows())}});
  const auto held = std::make_shared<HeldCampaign>(std::move(campaign));
  const std::scoped_lock lock(mutex_);
  campaigns_.emplace(spec.name(), held);
  return held->handle();
}

absl::StatusOr<std::shared_ptr<Campaign>> CampaignRegistry::Find(const std::string& name) const {
  const std::scoped_lock lock(mutex_);
  const auto found = campaigns_.find(name);
  if (found == campaigns_.end()) return NoSuchCampaign(name);
  absl::StatusOr<std::shared_ptr<Campaign>> handle = HandleOf(found->second);
  if (!handle.ok() || *handle != nullptr) return handle;
  return absl::UnavailableError(absl::StrCat("campaign '", name, "' is being deleted"));
}

std::vector<std::shared_ptr<Campaign>> CampaignRegistry::List(const std::string& after, std::size_t most) const {
  const std::scoped_lock lock(mutex_);
  std::vector<std::shared_ptr<Campaign>> listed;
  for (auto entry = campaigns_.upper_bound(after); entry != campaigns_.end() && listed.size() < most; ++entry) {
    if (entry->second.ok() && (*entry->second)->handle()) listed.push_back((*entry->second)->handle());
  }
  return listed;
}

absl::StatusOr<v1::Campaign> CampaignRegistry::Describe(const std::string& name) const {
  absl::StatusOr<std::shared_ptr<Campaign>> handle = NoSuchCampaign(name);
  {
    const std::scoped_lock lock(mutex_);
    const auto found = campaigns_.find(name);
    if (found == campaigns_.end()) return handle.status();
    handle = HandleOf(found->second);
  }
  // Not under the lock: others must not wait for it.
  return DescribeHandle(name, handle, /*fully=*/true);
}

std::vector<v1::Campaign> CampaignRegistry::DescribeAll(const std::string& after, std::size_t most) const {
  std::vector<std::pair<std::string, absl::StatusOr<std::shared_ptr<Campaign>>>> handles;
  {
    const std::scoped_lock lock(mutex_);
    for (auto entry = campaigns_.upper_bound(after); entry != campaigns_.end() && handles.size() < most; ++entry) {
      handles.emplace_back(entry->first, HandleOf(entry->second));
    }
  }
  std::vector<v1::Campaign> listed;
  listed.reserve(handles.size());
  for (const auto& [name, handle] : handles) listed.push_back(DescribeHandle(name, handle, /*fully=*/false));
  return listed;
}

void CampaignRegistry::RequestStop() {
  reopener_.request_stop();
  const std::scoped_lock lock(mutex_);
  for (const auto& [name, entry] : campaigns_) {
    if (entry.ok()) (*entry)->campaign().RequestStop();
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
    if (!entry.ok()) continue;
    const Campaign& campaign = (*entry)->campaign();
    if (campaign.quarantined() && !campaign.over()) names.push_back(name);
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
    HeldCampaign& held = **entry;
    const bool ended = held.campaign().WaitForRound(until);
    if (!ended) stuck.push_back(name);
    // Requests in its queue use it as well.
    held.StopGiving();
    if (!ended || !held.WaitForUsers(until)) held.Abandon();
    entry = absl::CancelledError("closed");
  }
  return stuck;
}

absl::StatusOr<std::string> CampaignRegistry::MoveToTrash(const std::string& name, const ChangeOrder& order) const {
  FULCRUM_RETURN_IF_ERROR(MakeFolder(options_.data_folder + "/trash"));
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  const std::string first = absl::StrCat(options_.data_folder, "/trash/", name, "-", seconds.count());
  std::string trash = first;
  // The same name may be deleted several times within a second. Only this daemon writes here, one deletion at a time.
  for (int copy = 2; std::filesystem::exists(trash); ++copy) trash = absl::StrCat(first, "-", copy);
  FULCRUM_RETURN_IF_ERROR(ReplaceFile(FolderOf(name) + kDeletionFile, DeletionText(order)));
  std::error_code error;
  std::filesystem::rename(FolderOf(name), trash, error);
  if (!error) return trash;
  return absl::UnavailableError(
      absl::StrCat("cannot move the folder of '", name, "' to '", trash, "': ", error.message()));
}

std::optional<std::string> CampaignRegistry::FindDeleted(const std::string& name, const ChangeOrder& order) const {
  if (order.request_id.empty()) return std::nullopt;
  std::error_code error;
  for (const auto& folder : std::filesystem::directory_iterator(options_.data_folder + "/trash", error)) {
    if (!absl::StartsWith(folder.path().filename().string(), name + "-")) continue;
    std::ifstream file(folder.path().string() + kDeletionFile);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    if (text == DeletionText(order)) return folder.path().string();
  }
  return std::nullopt;
}

absl::Status CampaignRegistry::CloseForDeletion(const std::string& name, HeldCampaign& held) {
  Campaign& campaign = held.campaign();
  if (campaign.offers_tasks()) {
    return absl::FailedPreconditionError(absl::StrCat("campaign '", name, "' is running; stop it first"));
  }
  campaign.BeginClosing();
  const auto until = std::chrono::steady_clock::now() + kClosingTime;
  bool closed = false;
  const bool ended = campaign.WaitForRound(until);
  if (ended) {
    // Those who wait for its tasks look again, and find that it is over.
    if (options_.on_change) options_.on_change(name);
    {
      const std::scoped_lock lock(mutex_);
      held.StopGiving();
    }
    closed = held.WaitForUsers(until);
  }
  if (closed) return absl::OkStatus();
  const std::scoped_lock lock(mutex_);
  if (ended) held.Reopen();
  campaign.CancelClosing();
  return absl::UnavailableError(absl::StrCat(ended ? "a call that uses" : "the round of", " campaign '", name,
                                             "' does not end; try again later, or restart the daemon"));
}

absl::StatusOr<std::string> CampaignRegistry::Delete(const std::string& name, const ChangeOrder& order) {
  FULCRUM_ASSIGN_OR_RETURN(const NameClaim claim, Claim(name));
  if (const auto deleted = FindDeleted(name, order)) return *deleted;
  Entry entry = NoSuchCampaign(name);
  {
    const std::scoped_lock lock(mutex_);
    const auto found = campaigns_.find(name);
    if (found == campaigns_.end()) return entry.status();
    entry = found->second;
  }
  if (entry.ok()) {
    FULCRUM_RETURN_IF_ERROR(CloseForDeletion(name, **entry));
    // The store closes here: its folder must not be used while it moves.
    const std::scoped_lock lock(mutex_);
    campaigns_.insert_or_assign(name, absl::UnavailableError("it is being deleted"));
  }
  entry = absl::CancelledError("closed");
  absl::StatusOr<std::string> trash = MoveToTrash(name, order);
  if (trash.ok()) Log(LogLevel::kInfo, "campaign deleted", {{"campaign", name}, {"by", order.by}, {"folder", *trash}});
  if (trash.ok() && options_.on_delete) options_.on_delete(name);
  // A campaign whose folder is still in its place stays one.
  if (!trash.ok()) entry = OpenCampaign(name, {});
  const std::scoped_lock lock(mutex_);
  if (trash.ok()) {
    campaigns_.erase(name);
  } else {
    campaigns_.insert_or_assign(name, std::move(entry));
  }
  return trash;
}

}  // namespace fulcrum::pipeline
