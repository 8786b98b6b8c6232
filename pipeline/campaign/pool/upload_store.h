// Files that clients sent to be the pool of a campaign.
//
// An upload is a folder in DATA/uploads: what is known about it, written when it is created and when it is complete,
// and the bytes so far. The time of the last use is that of the file with the bytes, so it survives a restart without
// being written anywhere else. Uploads that are not used for `keep_time` are removed. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fulcrum/v1/upload_service.pb.h"
#include "storage/clock.h"

namespace fulcrum::pipeline {

struct UploadLimits {
  std::int64_t most_bytes = std::int64_t{20} << 30;  ///< of all uploads together, by their announced sizes
  std::chrono::seconds keep_time{24 * 3600};         ///< without use
};

/// A complete upload. It is not removed while one of these is held.
struct UploadedFile {
  std::string path = {};
  std::string file_name = {};  ///< as the client named it
  std::shared_ptr<const void> hold = {};
};

class UploadStore {
 public:
  /// Takes up the uploads of an earlier process. The clock must outlive the store; null: a storage::AnchoredClock, so
  /// that setting the clock of the machine removes nothing.
  static absl::StatusOr<std::unique_ptr<UploadStore>> Open(const std::string& data_folder, UploadLimits limits,
                                                           const storage::Clock* clock = nullptr);
  UploadStore(const UploadStore&) = delete;
  UploadStore& operator=(const UploadStore&) = delete;

  /// The calls of fulcrum.v1.UploadService, whose file describes their errors. `by` is who calls.
  absl::StatusOr<v1::Upload> Create(const v1::CreateUploadRequest& request, const std::string& by);
  absl::StatusOr<v1::Upload> Write(const v1::WriteUploadRequest& request);
  absl::StatusOr<v1::Upload> Get(const std::string& id) const;
  /// Up to `most` uploads whose ids come after `after`, by id.
  std::vector<v1::Upload> List(const std::string& after, std::size_t most) const;
  absl::Status Delete(const std::string& id);

  /// Keeps an upload for another `keep_time`. NotFound if there is none, FailedPrecondition if it is not complete.
  absl::StatusOr<UploadedFile> Use(const std::string& id);

 private:
  struct Entry;
  using Entries = std::map<std::string, std::shared_ptr<Entry>>;

  UploadStore(std::string folder, UploadLimits limits, const storage::Clock* clock);
  absl::Status Load();
  std::shared_ptr<Entry> LoadEntry(const std::string& id) const;
  absl::StatusOr<std::shared_ptr<Entry>> Find(const std::string& id) const;
  absl::StatusOr<std::shared_ptr<Entry>> FindRepeated(const v1::CreateUploadRequest& request,
                                                      const std::string& by) const;
  absl::Status CheckRoom(std::int64_t bytes) const;
  absl::Status Save(const Entry& entry) const;
  absl::Status Append(Entry& entry, std::string_view bytes) const;
  absl::Status Complete(Entry& entry, const std::string& checksum) const;
  v1::Upload Describe(const Entry& entry) const;
  void RemoveExpired();
  void RemoveAgainAndAgain(const std::stop_token& stop);
  std::string FolderOf(const std::string& id) const { return folder_ + "/" + id; }

  const std::string folder_;
  const UploadLimits limits_;
  const storage::AnchoredClock own_clock_;
  const storage::Clock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable_any stopping_;
  Entries entries_;
  std::jthread remover_;  // last: it uses all of the above
};

/// Where the sources of a campaign may be.
struct PoolPlaces {
  std::string root = {};           ///< folder of pools
  UploadStore* uploads = nullptr;  ///< may be null; must outlive its users
};

/// The id of an upload that a source names; empty if it names a path.
std::string UploadIdOf(const std::string& source);

}  // namespace fulcrum::pipeline
