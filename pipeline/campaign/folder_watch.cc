#include "pipeline/campaign/folder_watch.h"

#include <condition_variable>
#include <mutex>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "pipeline/campaign/pool_sources.h"
#include "pipeline/operation/structured_log.h"
#include "stages/core/status_macros.h"
#include "storage/checksum.h"

namespace fulcrum::pipeline {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kBetweenLooks{2};
constexpr char kBy[] = "watched folder";

bool IsBeingWritten(const std::string& name) {
  return absl::StartsWith(name, ".") || absl::EndsWith(name, ".tmp") || absl::EndsWith(name, ".part");
}

bool IsForTheNextLook(const absl::Status& status) {
  return absl::IsCancelled(status) || absl::IsAborted(status) || absl::IsUnavailable(status);
}

/// Regular files, whose names say that they are whole, by name.
absl::StatusOr<std::set<fs::directory_entry>> FilesIn(const std::string& folder) {
  std::error_code error, ignored;
  std::set<fs::directory_entry> files;
  // Not as a range: going on to the next entry would throw where the disk fails.
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (entry->is_regular_file(ignored) && !IsBeingWritten(entry->path().filename().string())) files.insert(*entry);
  }
  if (error) return absl::UnavailableError(absl::StrCat("'", folder, "' cannot be read: ", error.message()));
  return files;
}

}  // namespace

absl::StatusOr<std::string> ResolveWatchedFolder(const WatchedFolder& watched) {
  FULCRUM_ASSIGN_OR_RETURN(const auto paths, ResolvePoolSources({watched.folder}, watched.root));
  std::error_code error;
  if (fs::is_directory(paths[0], error)) return paths[0];
  return absl::InvalidArgumentError(
      absl::StrCat("pool.watch: '", watched.folder, "' is no folder; make it first, and move files into it"));
}

void FolderWatch::Start() {
  thread_ = std::jthread([this](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    while (!stop.stop_requested()) {
      Look(stop);
      never.wait_for(lock, stop, kBetweenLooks, [] { return false; });
    }
  });
}

void FolderWatch::Look(const std::stop_token& stop) {
  const auto folder = ResolveWatchedFolder(watched_);
  if (!folder.ok()) return Tell(std::string(folder.status().message()));
  const auto files = FilesIn(*folder);
  if (!files.ok()) return Tell(std::string(files.status().message()));
  last_problem_.clear();
  std::map<std::string, Seen> now;
  for (const fs::directory_entry& file : *files) {
    if (stop.stop_requested()) return;
    const std::string name = file.path().filename().string();
    const auto before = seen_.find(name);
    LookAt(file, before == seen_.end() ? nullptr : &before->second, now[name]);
  }
  seen_ = std::move(now);
}

void FolderWatch::LookAt(const fs::directory_entry& file, const Seen* before, Seen& now) {
  std::error_code gone;
  now = {.size = file.file_size(gone), .written = file.last_write_time(gone)};
  if (gone || before == nullptr || !before->LooksLike(now)) return;
  now.settled = before->settled || TakeIn(file.path().string(), file.path().filename().string());
}

absl::StatusOr<Appended> FolderWatch::Append(const std::string& path, const std::string& name) const {
  // A link may lead out; then nothing of what it names is read.
  FULCRUM_RETURN_IF_ERROR(ResolvePoolSources({path}, watched_.root).status());
  FULCRUM_ASSIGN_OR_RETURN(const std::string checksum, storage::ChecksumOfFile(path));
  return take_({.by = kBy,
                .request_id = absl::StrCat(checksum, " ", name),
                .file = path,
                .checksum = checksum,
                .called = absl::StrCat("'", name, "'")});
}

bool FolderWatch::TakeIn(const std::string& path, const std::string& name) {
  const absl::StatusOr<Appended> appended = Append(path, name);
  if (IsForTheNextLook(appended.status())) return false;
  if (!appended.ok()) {
    Log(LogLevel::kWarning, "file cannot be appended; it is left alone until it changes",
        {{"campaign", watched_.campaign}, {"file", name}, {"reason", std::string(appended.status().message())}});
  } else if (!appended->repeated) {
    Log(LogLevel::kInfo, "file appended",
        {{"campaign", watched_.campaign},
         {"file", name},
         {"added", appended->response.added()},
         {"there_already", appended->response.there_already()},
         {"rejected", appended->response.rejected()}});
  }
  return true;
}

void FolderWatch::Tell(const std::string& problem) {
  if (std::exchange(last_problem_, problem) == problem) return;
  Log(LogLevel::kWarning, "watched folder cannot be read", {{"campaign", watched_.campaign}, {"reason", problem}});
}

}  // namespace fulcrum::pipeline
