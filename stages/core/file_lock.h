// Keeps other processes from writing to a file or folder that this one writes to.
//
// The lock goes with the object, and with the process whatever becomes of it: the kernel drops it. It binds only those
// who ask for it. A lock is used by one thread at a time.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace fulcrum {

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
