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
  /// Opens the temporary file. Returns InvalidArgument if the path cannot be written, ResourceExhausted if the disk is
  /// full or too many files are open.
  static absl::StatusOr<AtomicFile> Create(const std::string& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  const std::string& path() const { return path_; }
  absl::Status Write(std::string_view bytes);
  /// Makes the written data durable under its temporary name, so that errors occur here and not in Commit.
  absl::Status Sync();
  /// Syncs if that was not done, renames, and syncs the folder. Not `durable`: only renames; a power loss may undo it.
  absl::Status Commit(bool durable = true);

 private:
  AtomicFile(std::string path, std::string temporary_path, int descriptor);
  absl::Status Close();
  absl::Status Error(std::string_view doing) const;

  std::string path_;
  std::string temporary_path_;  // empty if there is none
  int descriptor_ = -1;         // -1 after closing
};

/// Replaces a whole file atomically. Not `durable`: a power loss may undo it.
absl::Status ReplaceFile(const std::string& path, std::string_view content, bool durable = true);

/// Makes the content of a file durable, also if it was written by another process.
absl::Status SyncFile(const std::string& path);

/// Makes the names in a folder durable, after a rename or after files were created in it.
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

/// Of some bytes: a hash that is the same in every process.
inline std::uint64_t ChecksumOf(std::string_view bytes) {
  Checksum checksum;
  checksum.Add(bytes);
  return checksum.value();
}

/// The text of the checksum of a whole file, read in pieces. NotFound if it does not exist.
absl::StatusOr<std::string> ChecksumOfFile(const std::string& path);

/// CRC-32 (ISO 3309, as in gzip), which clients in any language have at hand: finds accidental damage.
class Crc32 {
 public:
  void Add(std::string_view bytes);
  std::uint32_t value() const { return state_ ^ 0xFFFFFFFF; }
  /// "crc32:00c0ffee"
  std::string ToText() const;

 private:
  std::uint32_t state_ = 0xFFFFFFFF;
};

// Keeps other processes from writing to a file or folder that this one writes to.
//
// The lock is released with the object, and by the kernel when the process ends. It is advisory. Not thread-safe.

class FileLock {
 public:
  /// Locks an existing folder, or a file, which is created if it is missing. Returns Unavailable if another process, or
  /// another object of this process, holds the lock.
  static absl::StatusOr<FileLock> Take(const std::string& path);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace fulcrum
