// Files that appear when they are complete, or not at all; checksums; locks.
//
// What is written goes to a file of another name in the same folder; Commit makes it durable, renames it and makes the
// new name durable too: after it has returned, a power loss removes neither the file nor its name. Without Commit, an
// existing file stays unchanged and nothing is left behind. A path that is not a regular file (a pipe, /dev/null) is
// written to directly, because it must not be replaced. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace fulcrum {

class AtomicFile {
 public:
  /// Opens the temporary file. InvalidArgument where the path cannot be written to.
  static absl::StatusOr<AtomicFile> Create(const std::string& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  const std::string& path() const { return path_; }
  absl::Status Write(std::string_view bytes);
  /// Makes what was written durable under its temporary name: what can fail, fails here.
  absl::Status Sync();
  /// Syncs where that was not done, renames, and syncs the folder.
  absl::Status Commit();

 private:
  AtomicFile(std::string path, std::string temporary_path, int descriptor);
  absl::Status Close();
  absl::Status Error(std::string_view doing) const;

  std::string path_;
  std::string temporary_path_;  // empty where there is none
  int descriptor_ = -1;         // -1 once closed
};

/// Writes a whole file: the old one or the new one, never less.
absl::Status ReplaceFile(const std::string& path, std::string_view content);

/// Makes what was written to a file durable, whoever wrote it.
absl::Status SyncFile(const std::string& path);

/// Makes the names in a folder durable: after a rename, or after files were made in it.
absl::Status SyncFolder(const std::string& folder);

/// FNV-1a, 64 bits: tells contents apart and finds accidental damage; it does not protect against forgery.
class Checksum {
 public:
  void Add(std::string_view bytes) {
    for (const char byte : bytes) value_ = (value_ ^ static_cast<unsigned char>(byte)) * 1099511628211ULL;
  }
  std::uint64_t value() const { return value_; }
  /// "fnv1a:00c0ffee00c0ffee"
  std::string ToText() const;

 private:
  std::uint64_t value_ = 14695981039346656037ULL;
};

// Keeps other processes from writing to a file or folder that this one writes to.
//
// The lock goes with the object, and with the process whatever becomes of it: the kernel drops it. It binds only those
// who ask for it. A lock is used by one thread at a time.

class FileLock {
 public:
  /// On a folder that is there, or on a file, which is made where it is absent. Unavailable where somebody has the lock
  /// already, another process or another object of this one.
  static absl::StatusOr<FileLock> Take(const std::string& path);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace fulcrum
