#include "storage/pool/durable_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"

namespace fulcrum::storage {
namespace {

absl::Status SystemError(absl::string_view doing, const std::string& path) {
  const int error = errno;
  const std::string message = absl::StrCat("cannot ", doing, " '", path, "': ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT || error == ENOMEM) {
    return absl::ResourceExhaustedError(absl::StrCat(message, "; make room and run again"));
  }
  return absl::UnavailableError(message);
}

absl::Status WriteAll(int descriptor, const std::string& content, const std::string& path, Durability durability) {
  for (std::size_t done = 0; done < content.size();) {
    const ssize_t written = write(descriptor, content.data() + done, content.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SystemError("write", path);
    done += static_cast<std::size_t>(written);
  }
  if (durability == Durability::kAgainstKill) return absl::OkStatus();
  return fsync(descriptor) == 0 ? absl::OkStatus() : SystemError("make durable", path);
}

}  // namespace

absl::Status SyncPath(const std::string& path, Durability durability) {
  return durability == Durability::kAgainstKill ? absl::OkStatus() : SyncPath(path);
}

absl::Status SyncPath(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return SystemError("open", path);
  const absl::Cleanup close_it = [descriptor] { close(descriptor); };
  return fsync(descriptor) == 0 ? absl::OkStatus() : SystemError("make durable", path);
}

absl::Status ReplaceFile(const std::string& path, const std::string& content, Durability durability) {
  const std::string temporary = absl::StrCat(path, ".new");
  const int descriptor = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) return SystemError("write", temporary);
  const absl::Status written = WriteAll(descriptor, content, temporary, durability);
  if (close(descriptor) != 0 && written.ok()) return SystemError("close", temporary);
  FULCRUM_RETURN_IF_ERROR(written);
  if (rename(temporary.c_str(), path.c_str()) != 0) return SystemError("replace", path);
  return SyncPath(std::filesystem::path(path).parent_path().string(), durability);
}

absl::StatusOr<FolderLock> FolderLock::Take(const std::string& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return SystemError("open", folder);
  FolderLock lock(descriptor);
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno != EWOULDBLOCK) return SystemError("lock", folder);
  return absl::UnavailableError(absl::StrCat("another process is writing to '", folder, "'; wait for it to end"));
}

FolderLock::FolderLock(FolderLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace fulcrum::storage
