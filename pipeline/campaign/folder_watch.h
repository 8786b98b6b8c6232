// A folder whose files become rows of a campaign's pool: to move a file into it is to append it.
//
// Looked at every so often, in the order of names. A file is taken once it has looked the same twice in a row, and each
// content once, after a restart too, since the campaign's log remembers it; files stay where they are. One that cannot
// be taken is told of in the log and left alone until it changes. Names that begin with a dot or end in .tmp or .part
// belong to files that are still being written. The thread lives as long as this does. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/campaign/pool_appender.h"

namespace fulcrum::pipeline {

struct WatchedFolder {
  std::string campaign = {};
  std::string folder = {};  ///< relative to `root`
  std::string root = {};    ///< outside of which nothing is read
};

/// Its path. InvalidArgument where it is not inside the root, or no folder.
absl::StatusOr<std::string> ResolveWatchedFolder(const WatchedFolder& watched);

class FolderWatch {
 public:
  /// Appends a file. Cancelled, Aborted and Unavailable mean: not now, but perhaps at the next look.
  using Take = std::function<absl::StatusOr<Appended>(const AppendRequest&)>;

  FolderWatch(WatchedFolder watched, Take take) : watched_(std::move(watched)), take_(std::move(take)) {}

  /// Looks from now on, on a thread of its own.
  void Start();
  /// Looks once.
  void Look(const std::stop_token& stop = {});

 private:
  struct Seen {
    std::uintmax_t size = 0;
    std::filesystem::file_time_type written = {};
    bool settled = false;  // taken, or refused

    bool LooksLike(const Seen& other) const { return size == other.size && written == other.written; }
  };

  void LookAt(const std::filesystem::directory_entry& file, const Seen* before, Seen& now);
  absl::StatusOr<Appended> Append(const std::string& path, const std::string& name) const;
  /// Whether nothing more is to be done about the file as it is.
  bool TakeIn(const std::string& path, const std::string& name);
  void Tell(const std::string& problem);

  const WatchedFolder watched_;
  const Take take_;
  std::map<std::string, Seen> seen_;  // by name
  std::string last_problem_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace fulcrum::pipeline
