// A copy of a campaign's database that may be opened and written to without touching the original.
//
// SQLite changes files even when it only reads them: it may create, recover or delete a write-ahead log. Tools that
// must not change a campaign work on a copy of both files. An empty database with a write-ahead log next to it is made
// readable in the copy, since the log may hold every page. A plain value for one thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "storage/campaign_folder.h"

namespace fulcrum::storage {

class DatabaseCopy {
 public:
  /// Copies the database and its write-ahead log, if there is one, to `path`. The caller makes sure that no process
  /// writes to the campaign. The copy is removed with the object, except for what was renamed by then.
  static absl::StatusOr<DatabaseCopy> Make(const CampaignFolder& folder, const std::string& path);
  /// The same in a new folder for temporary files.
  static absl::StatusOr<DatabaseCopy> MakeTemporary(const CampaignFolder& folder);

  DatabaseCopy(DatabaseCopy&& other) noexcept;
  DatabaseCopy& operator=(DatabaseCopy&&) = delete;
  ~DatabaseCopy();

  const std::string& path() const { return path_; }

 private:
  explicit DatabaseCopy(std::string path) : path_(std::move(path)) {}

  std::string path_;
  std::string temporary_folder_;  ///< empty unless there is one to be removed
};

}  // namespace fulcrum::storage
