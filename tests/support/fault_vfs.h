// A SQLite VFS that injects a fault, or kills the process, at a given operation.
//
// While an instance exists, it is the default VFS and forwards to the real one, so the code under test needs no change.
// At most one instance may exist; connections opened with it must be closed before it is destroyed. Thread-safe.
#pragma once

#include <cstdint>

namespace fulcrum::testing {

enum class DiskFault {
  kWriteError,  ///< a write fails
  kSyncError,   ///< an fsync fails
  kDiskFull,    ///< this write and all later ones fail with "disk full" until Clear
  kKill,        ///< SIGKILL in the middle of a write, or before an fsync
};

class FaultVfs {
 public:
  FaultVfs();
  ~FaultVfs();
  FaultVfs(const FaultVfs&) = delete;
  FaultVfs& operator=(const FaultVfs&) = delete;

  /// The fault occurs at the `countdown`-th operation of its kind from now, counting from 1.
  void Arm(DiskFault fault, std::int64_t countdown);
  void Clear();
  /// Returns whether the fault has occurred.
  bool happened() const;
};

}  // namespace fulcrum::testing
