#include "storage/campaign_folder.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
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

namespace {

namespace fs = std::filesystem;

/// What a file is, for those that may be removed: "scores", "models" or "streams", and its round.
std::optional<std::pair<std::string, std::int64_t>> KindAndRound(absl::string_view name) {
  const bool is_model = absl::ConsumePrefix(&name, "models/") && absl::EndsWith(name, ".model");
  const bool of_round = absl::ConsumePrefix(&name, "rounds/");
  const bool is_scores = of_round && absl::EndsWith(name, "-scores.parquet");
  const bool is_stream = of_round && absl::EndsWith(name, "-stream.model");
  std::int64_t round = 0;
  const bool known = is_model || is_scores || is_stream;
  if (!known || !absl::SimpleAtoi(name.substr(0, name.find('-')), &round)) return std::nullopt;
  return std::pair(std::string(is_model ? "models" : is_scores ? "scores" : "streams"), round);
}

/// By kind: the last round whose files were removed.
using RemovedRounds = std::map<std::string, std::int64_t>;

RemovedRounds ReadRemoved(const CampaignFolder& folder) {
  RemovedRounds removed;
  std::ifstream file(folder.File(kRemovedFiles));
  std::string kind;
  for (std::int64_t round = 0; file >> kind >> round;) removed[kind] = round;
  return removed;
}

bool IsIn(const RemovedRounds& removed, absl::string_view name) {
  const auto kind_and_round = KindAndRound(name);
  if (!kind_and_round) return false;
  const auto found = removed.find(kind_and_round->first);
  return found != removed.end() && kind_and_round->second <= found->second;
}

absl::Status RemoveFilesIn(const CampaignFolder& folder, const std::string& subfolder, const RemovedRounds& removed) {
  std::error_code error;
  fs::directory_iterator entry(folder.File(subfolder), error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (!IsIn(removed, absl::StrCat(subfolder, "/", entry->path().filename().string()))) continue;
    std::error_code failed;
    fs::remove(entry->path(), failed);
    if (failed) {
      return absl::UnavailableError(
          absl::StrCat("cannot remove '", entry->path().string(), "': ", failed.message(), "; retrying later"));
    }
  }
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot read '", folder.File(subfolder), "': ", error.message()));
}

}  // namespace

absl::Status RemoveOldFiles(const CampaignFolder& folder, const Retention& retention, std::int64_t newest) {
  RemovedRounds removed = ReadRemoved(folder);
  const RemovedRounds before = removed;
  const auto keep = [&](const char* kind, std::int64_t rounds) {
    if (rounds > 0 && newest > rounds) removed[kind] = std::max(removed[kind], newest - rounds);
  };
  keep("scores", retention.scores);
  keep("models", retention.models);
  keep("streams", retention.streams);
  if (removed == before) return absl::OkStatus();
  std::string text;
  for (const auto& [kind, round] : removed) absl::StrAppend(&text, kind, " ", round, "\n");
  FULCRUM_RETURN_IF_ERROR(ReplaceFile(folder.File(kRemovedFiles), text));
  FULCRUM_RETURN_IF_ERROR(RemoveFilesIn(folder, "rounds", removed));
  return RemoveFilesIn(folder, "models", removed);
}

bool WasRemoved(const CampaignFolder& folder, absl::string_view name) {
  return IsIn(ReadRemoved(folder), name);
}

}  // namespace fulcrum::storage
