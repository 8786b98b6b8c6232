#include "storage/campaign_folder.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"

namespace fulcrum::storage {

absl::Status CampaignFolder::Create() const {
  std::error_code error;
  for (const std::string& folder : {path_, pool(), models(), rounds()}) {
    std::filesystem::create_directories(folder, error);
    if (error) {
      return absl::InvalidArgumentError(absl::StrCat("cannot make the folder '", folder, "': ", error.message(),
                                                     "; check that the folder above it exists and may be written to"));
    }
  }
  FULCRUM_RETURN_IF_ERROR(SyncFolder(path_));
  return SyncFolder(std::filesystem::path(path_).lexically_normal().parent_path().string());
}

absl::Status CampaignFolder::Check() const {
  std::error_code error;
  if (!std::filesystem::is_directory(path_, error)) {
    return absl::NotFoundError(absl::StrCat("there is no campaign folder '", path_, "'; check the path"));
  }
  if (!std::filesystem::exists(database(), error)) {
    return absl::NotFoundError(absl::StrCat("'", path_,
                                            "' is no campaign: it has no campaign.db; check the path, or "
                                            "restore a backup into another folder"));
  }
  return absl::OkStatus();
}

absl::StatusOr<FileLock> LockCampaign(const CampaignFolder& folder) {
  absl::StatusOr<FileLock> lock = FileLock::Take(folder.lock());
  if (!absl::IsUnavailable(lock.status())) return lock;
  return absl::UnavailableError(absl::StrCat("campaign '", folder.path(),
                                             "' is open in another process, which writes to it; stop that one first, "
                                             "or ask it instead"));
}

}  // namespace fulcrum::storage
