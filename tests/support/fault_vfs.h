// A file system for SQLite that fails, or ends the process, at a chosen moment.
//
// While one exists it is SQLite's default, in front of the real one, so the code under test needs no change. At most
// one at a time; connections opened under it must be closed before it goes. Thread-safe.
#pragma once

#include <cstdint>

namespace fulcrum::testing {

enum class DiskFault {
  kWriteError,  ///< a write fails
  kSyncError,   ///< an fsync fails
  kDiskFull,    ///< this write and all later ones find no room, until Clear
  kKill,        ///< SIGKILL at a write, half of it done, or before an fsync
};

class FaultVfs {
 public:
  FaultVfs();
  ~FaultVfs();
  FaultVfs(const FaultVfs&) = delete;
  FaultVfs& operator=(const FaultVfs&) = delete;

  /// The fault happens at the `countdown`-th operation of its kind from now, counting from 1.
  void Arm(DiskFault fault, std::int64_t countdown);
  void Clear();
  /// Whether the armed fault has happened.
  bool happened() const;
};

}  // namespace fulcrum::testing
