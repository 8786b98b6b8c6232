#include "tests/support/fault_vfs.h"

#include <signal.h>
#include <sqlite3.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>

namespace fulcrum::testing {
namespace {

constexpr char kName[] = "fulcrum-fault";

struct Controls {
  std::atomic<int> fault = -1;
  std::atomic<std::int64_t> countdown = 0;
  std::atomic<bool> happened = false;
};
Controls controls;

sqlite3_vfs* real_vfs = nullptr;

/// Returns whether this operation is the one at which the fault occurs.
bool IsTime(DiskFault fault) {
  if (controls.fault != static_cast<int>(fault)) return false;
  const std::int64_t left = --controls.countdown;
  const bool now = left == 0 || (left < 0 && fault == DiskFault::kDiskFull);
  if (now) controls.happened = true;
  return now;
}

struct FaultFile {
  sqlite3_file base;
  sqlite3_file* real;  // stored directly after this struct
};

sqlite3_file* Real(sqlite3_file* file) {
  return reinterpret_cast<FaultFile*>(file)->real;
}

int Close(sqlite3_file* file) {
  return Real(file)->pMethods->xClose(Real(file));
}
int Read(sqlite3_file* file, void* bytes, int count, sqlite3_int64 offset) {
  return Real(file)->pMethods->xRead(Real(file), bytes, count, offset);
}
int Write(sqlite3_file* file, const void* bytes, int count, sqlite3_int64 offset) {
  if (IsTime(DiskFault::kWriteError)) return SQLITE_IOERR_WRITE;
  if (IsTime(DiskFault::kDiskFull)) return SQLITE_FULL;
  if (IsTime(DiskFault::kKill)) {
    Real(file)->pMethods->xWrite(Real(file), bytes, count / 2, offset);
    kill(getpid(), SIGKILL);
  }
  return Real(file)->pMethods->xWrite(Real(file), bytes, count, offset);
}
int Truncate(sqlite3_file* file, sqlite3_int64 size) {
  return Real(file)->pMethods->xTruncate(Real(file), size);
}
int Sync(sqlite3_file* file, int flags) {
  if (IsTime(DiskFault::kSyncError)) return SQLITE_IOERR_FSYNC;
  if (IsTime(DiskFault::kKill)) kill(getpid(), SIGKILL);
  return Real(file)->pMethods->xSync(Real(file), flags);
}
int FileSize(sqlite3_file* file, sqlite3_int64* size) {
  return Real(file)->pMethods->xFileSize(Real(file), size);
}
int Lock(sqlite3_file* file, int level) {
  return Real(file)->pMethods->xLock(Real(file), level);
}
int Unlock(sqlite3_file* file, int level) {
  return Real(file)->pMethods->xUnlock(Real(file), level);
}
int CheckReservedLock(sqlite3_file* file, int* result) {
  return Real(file)->pMethods->xCheckReservedLock(Real(file), result);
}
int FileControl(sqlite3_file* file, int operation, void* argument) {
  return Real(file)->pMethods->xFileControl(Real(file), operation, argument);
}
int SectorSize(sqlite3_file* file) {
  return Real(file)->pMethods->xSectorSize(Real(file));
}
int DeviceCharacteristics(sqlite3_file* file) {
  return Real(file)->pMethods->xDeviceCharacteristics(Real(file));
}
int ShmMap(sqlite3_file* file, int page, int size, int extend, void volatile** memory) {
  return Real(file)->pMethods->xShmMap(Real(file), page, size, extend, memory);
}
int ShmLock(sqlite3_file* file, int offset, int count, int flags) {
  return Real(file)->pMethods->xShmLock(Real(file), offset, count, flags);
}
void ShmBarrier(sqlite3_file* file) {
  Real(file)->pMethods->xShmBarrier(Real(file));
}
int ShmUnmap(sqlite3_file* file, int remove) {
  return Real(file)->pMethods->xShmUnmap(Real(file), remove);
}

// Version 2, because version 3 has memory-mapped reads, which would bypass this VFS.
const sqlite3_io_methods kMethods = {2,
                                     Close,
                                     Read,
                                     Write,
                                     Truncate,
                                     Sync,
                                     FileSize,
                                     Lock,
                                     Unlock,
                                     CheckReservedLock,
                                     FileControl,
                                     SectorSize,
                                     DeviceCharacteristics,
                                     ShmMap,
                                     ShmLock,
                                     ShmBarrier,
                                     ShmUnmap,
                                     nullptr,
                                     nullptr};

int Open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  auto* const fault_file = reinterpret_cast<FaultFile*>(file);
  fault_file->real = reinterpret_cast<sqlite3_file*>(fault_file + 1);
  const int code = real_vfs->xOpen(real_vfs, name, fault_file->real, flags, out_flags);
  fault_file->base.pMethods = fault_file->real->pMethods == nullptr ? nullptr : &kMethods;
  return code;
}

sqlite3_vfs MakeVfs() {
  // Names, time and randomness are handled by the real VFS. It uses its argument only for its own data, of which this
  // struct has a copy.
  sqlite3_vfs vfs = *real_vfs;
  vfs.szOsFile = static_cast<int>(sizeof(FaultFile)) + real_vfs->szOsFile;
  vfs.zName = kName;
  vfs.pNext = nullptr;
  vfs.xOpen = Open;
  return vfs;
}

sqlite3_vfs fault_vfs;

}  // namespace

FaultVfs::FaultVfs() {
  real_vfs = sqlite3_vfs_find(nullptr);
  fault_vfs = MakeVfs();
  Clear();
  if (sqlite3_vfs_register(&fault_vfs, /*makeDflt=*/1) != SQLITE_OK) throw std::runtime_error("cannot add a VFS");
}

FaultVfs::~FaultVfs() {
  sqlite3_vfs_unregister(&fault_vfs);
  sqlite3_vfs_register(real_vfs, /*makeDflt=*/1);
}

void FaultVfs::Arm(DiskFault fault, std::int64_t countdown) {
  controls.happened = false;
  controls.countdown = countdown;
  controls.fault = static_cast<int>(fault);
}

void FaultVfs::Clear() {
  controls.fault = -1;
  controls.happened = false;
}

bool FaultVfs::happened() const {
  return controls.happened;
}

}  // namespace fulcrum::testing
