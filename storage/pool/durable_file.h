// Files and folders that are on the disk when a function says so, and a lock on a folder. Thread-safe.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace fulcrum::storage {

/// What an OK waits for. A process that is killed loses nothing that it has written; a machine that loses its power
/// loses what has not reached the disk.
enum class Durability { kAgainstKill, kAgainstPowerLoss };

/// Writes a file under another name and renames it: the old one or the new one, never less.
absl::Status ReplaceFile(const std::string& path, const std::string& content, Durability durability);

/// Makes a file's data, or a folder's entries, durable.
absl::Status SyncPath(const std::string& path);

/// The same, where it is asked for.
absl::Status SyncPath(const std::string& path, Durability durability);

/// Keeps other processes from writing to a folder, until it goes. The kernel drops it with the process.
class FolderLock {
 public:
  /// Unavailable where another process holds it.
  static absl::StatusOr<FolderLock> Take(const std::string& folder);
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

}  // namespace fulcrum::storage
