#include "pipeline/campaign/new_campaign.h"

#include <filesystem>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "pipeline/campaign/folder_watch.h"
#include "pipeline/campaign/own_pool.h"
#include "stages/core/atomic_file.h"
#include "stages/core/status_macros.h"
#include "storage/campaign_store.h"

namespace fulcrum::pipeline {
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
