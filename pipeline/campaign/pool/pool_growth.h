// Takes rows from outside into a campaign's pool: checked, made durable, told to the log, and then in memory.
//
// The rows become an imported pool in a folder of their own, pool/appended-00001 and so on. The log names a folder
// after it is whole and on disk; one that it does not name is left over from something interrupted and is replaced. One
// request at a time, the one that holds the upload. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/campaign/pool/campaign_pool.h"
#include "pipeline/round/pool_source.h"
#include "stages/core/files.h"
#include "storage/campaign_store.h"
#include "storage/pool/pool_writer.h"

namespace fulcrum::pipeline {

// Rows on their way into a campaign's pool: the bytes that a client sends, gathered in a file.
//
// A campaign has one at a time, so that what a daemon leaves behind when it is killed is replaced by the next. Used by
// one thread at a time; the file goes with it.

class RowUpload {
 public:
  static constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;

  /// Aborted where `busy` says that there is one already; it says so from now on, until this one goes.
  static absl::StatusOr<std::unique_ptr<RowUpload>> Begin(const std::string& folder,
                                                          std::shared_ptr<std::atomic<bool>> busy);
  ~RowUpload();
  RowUpload(const RowUpload&) = delete;
  RowUpload& operator=(const RowUpload&) = delete;

  /// ResourceExhausted for more than kMostBytes in all.
  absl::Status Add(absl::string_view bytes);
  /// Says that no more will come. Unavailable if the disk did not take it all.
  absl::Status Finish();

  const std::string& file() const { return file_; }
  /// Of what was added.
  std::string checksum() const { return checksum_.ToText(); }

 private:
  RowUpload(std::string file, std::shared_ptr<std::atomic<bool>> busy);
  absl::Status CheckDisk() const;

  const std::string file_;
  const std::shared_ptr<std::atomic<bool>> busy_;
  std::ofstream stream_;
  std::int64_t bytes_ = 0;
  Checksum checksum_;
};

struct AppendRequest {
  std::string by = {};  ///< who appends
  std::string request_id = {};
  std::string file = {};      ///< of the upload
  std::string checksum = {};  ///< of that file
  /// Its name in messages, which do not reveal the path.
  std::string called = "the stream";
  /// Ends it early, with Cancelled and nothing appended.
  ImportControl control = {};
};

struct Appended {
  v1::AppendItemsResponse response = {};
  bool repeated = false;  ///< it was answered before, and nothing was done now
};

class PoolAppender {
 public:
  /// Says whether the campaign can use the pool as it has grown: there is memory for it, and the kernels of the rows
  /// from `first_new` on can be computed.
  using Admit = std::function<absl::Status(const CampaignPool& grown, std::size_t first_new)>;

  /// Both must outlive it.
  PoolAppender(GrowingPool& pool, storage::CampaignStore& store, Admit admit)
      : pool_(pool), store_(store), admit_(std::move(admit)) {}

  /// Where to put the rows. Aborted if another caller is appending.
  absl::StatusOr<std::unique_ptr<RowUpload>> BeginUpload() { return RowUpload::Begin(store_.folder().path(), busy_); }

  /// OK: the rows are in the pool, on disk. FailedPrecondition if the pool has no ids or the campaign is over,
  /// InvalidArgument if the file is not what it should be, ResourceExhausted if there is no memory for more; the
  /// pool is as before then.
  absl::StatusOr<Appended> Append(const AppendRequest& request);

  /// Rows of a stream, which the log has already: puts them into files of the pool. `file` is of an upload, `through`
  /// the last of the log that it includes. Rows that others have appended under the same ids stay as those are.
  absl::Status StoreOffered(const std::string& file, const ingest::ColumnOptions& columns, std::int64_t through);

 private:
  struct NewFolder {
    std::string name = {};  ///< as the log has it
    ImportResult imported = {};
    std::shared_ptr<const CampaignPool> grown = {};  ///< null if no row is new
  };
  /// Makes a folder of the rows of a file, behind those that were appended so far.
  absl::StatusOr<NewFolder> MakeFolder(const std::string& file, const ingest::ColumnOptions& columns,
                                       const CampaignPool& pool, std::size_t number, const ImportControl& control);
  /// Takes the folder up that the log tells of now.
  absl::Status TakeUp(std::shared_ptr<const CampaignPool> grown);
  /// Appends, unless the process died in it again and again.
  absl::StatusOr<v1::AppendItemsResponse> AppendMarked(const AppendRequest& request, const CampaignPool& pool,
                                                       std::size_t number);
  absl::StatusOr<v1::AppendItemsResponse> AppendNew(const AppendRequest& request, const CampaignPool& pool,
                                                    std::size_t number);

  GrowingPool& pool_;
  storage::CampaignStore& store_;
  const Admit admit_;
  const std::shared_ptr<std::atomic<bool>> busy_ = std::make_shared<std::atomic<bool>>(false);
};

// A folder whose files become rows of a campaign's pool: to move a file into it is to append it.
//
// Looked at every so often, in the order of names. A file is taken once it has looked the same twice in a row, and each
// content once, after a restart too, since the campaign's log remembers it; files stay where they are. One that cannot
// be taken is told of in the log and left alone until it changes; if only the disk, the memory or a queue is full, it
// is tried again, at ever longer intervals. Names that begin with a dot or end in .tmp or .part belong to files that
// are still being written. The thread lives as long as this does. Not thread-safe.

struct WatchedFolder {
  std::string campaign = {};
  std::string folder = {};  ///< relative to `root`
  std::string root = {};    ///< outside of which nothing is read
};

/// Its path. InvalidArgument if it is not inside the root, or no folder.
absl::StatusOr<std::string> ResolveWatchedFolder(const WatchedFolder& watched);

class FolderWatch {
 public:
  /// Appends a file. Cancelled, Aborted and Unavailable mean: not now, but perhaps at the next look; ResourceExhausted:
  /// at a later one.
  using Take = std::function<absl::StatusOr<Appended>(const AppendRequest&)>;

  FolderWatch(WatchedFolder watched, Take take) : watched_(std::move(watched)), take_(std::move(take)) {}

  /// Looks from now on, on a thread of its own.
  void Start();
  /// Looks once.
  void Look(const std::stop_token& stop = {});
  /// Ends the appending of a file, and looks no more. The destructor waits for the end.
  void RequestStop() { thread_.request_stop(); }

 private:
  struct Seen {
    std::uintmax_t size = 0;
    std::filesystem::file_time_type written = {};
    bool settled = false;   // taken, or refused
    int failures = 0;       // in a row, because there was no room
    int looks_to_wait = 0;  // before the next attempt

    bool LooksLike(const Seen& other) const { return size == other.size && written == other.written; }
  };

  void LookAt(const std::filesystem::directory_entry& file, const Seen* before, Seen& now, const std::stop_token& stop);
  absl::StatusOr<Appended> Append(const std::string& path, const std::string& name, const std::stop_token& stop) const;
  void TakeIn(const std::string& path, const std::string& name, Seen& file, const std::stop_token& stop);
  void Tell(const std::string& problem);

  const WatchedFolder watched_;
  const Take take_;
  std::map<std::string, Seen> seen_;  // by name
  std::string last_problem_;
  std::jthread thread_;  // last: it uses all of the above
};

// Where a campaign's pool is read from: files inside the folder that the daemon was given, and no others.
//
// Stateless and thread-safe.

/// The sources as paths, relative ones below `root`. InvalidArgument for one that does not lie inside it, whatever
/// links and dots it is made of.
absl::StatusOr<std::vector<std::string>> ResolvePoolSources(const std::vector<std::string>& sources,
                                                            const std::string& root);

}  // namespace fulcrum::pipeline
