#include "storage/pool/pool_copy.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "stages/core/atomic_file.h"
#include "stages/core/status_macros.h"
#include "storage/pool/pool_manifest.h"

namespace fulcrum::storage {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> FilesOf(const PoolManifest& manifest) {
  std::vector<std::string> files = manifest.rejected_files;
  files.push_back(manifest.statistics_file);
  for (const PoolPart& part : manifest.parts) files.push_back(part.file);
  return files;
}

absl::Status LinkOrCopy(const std::string& from, const std::string& to) {
  std::error_code error;
  // Not across file systems, and not of another user's files.
  fs::create_hard_link(from, to, error);
  if (error) fs::copy_file(from, to, error);
  if (error) {
    return absl::UnavailableError(absl::StrCat("cannot copy '", from, "' to '", to, "': ", error.message(),
                                               "; check that it is there, and that there is room"));
  }
  // A link too: whoever wrote the file may not have waited for the disk.
  return SyncFile(to);
}

}  // namespace

absl::Status CopyPool(const std::string& from, const std::string& to) {
  FULCRUM_ASSIGN_OR_RETURN(const PoolManifest manifest, ReadManifest(from));
  const std::string work_folder = absl::StrCat(to, ".importing");
  std::error_code error;
  fs::remove_all(work_folder, error);
  fs::create_directories(work_folder, error);
  if (error) {
    return absl::UnavailableError(absl::StrCat("cannot make the folder '", work_folder, "': ", error.message()));
  }
  const absl::Cleanup remove_work = [&] { fs::remove_all(work_folder, error); };
  for (const std::string& file : FilesOf(manifest)) {
    FULCRUM_RETURN_IF_ERROR(LinkOrCopy(absl::StrCat(from, "/", file), absl::StrCat(work_folder, "/", file)));
  }
  FULCRUM_RETURN_IF_ERROR(WriteManifest(work_folder, manifest));
  fs::rename(work_folder, to, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot put '", to, "' in its place: ", error.message()));
  return SyncFolder(fs::absolute(to).parent_path().string());
}

}  // namespace fulcrum::storage
