#include "stages/core/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"

namespace fulcrum {

absl::StatusOr<FileLock> FileLock::Take(const std::string& path) {
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(path, ignored);
  const int descriptor = open(path.c_str(), (is_folder ? O_RDONLY | O_DIRECTORY : O_RDWR | O_CREAT) | O_CLOEXEC, 0666);
  if (descriptor < 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot open '", path, "': ", std::strerror(errno), "; check the folder and its permissions"));
  }
  FileLock lock(descriptor);
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno == EWOULDBLOCK) {
    return absl::UnavailableError(absl::StrCat("another process is writing to '", path, "'; wait for it to end"));
  }
  return absl::FailedPreconditionError(absl::StrCat("cannot lock '", path, "': ", std::strerror(errno),
                                                    "; put it on a local disk, network file systems do not work"));
}

FileLock::FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileLock::~FileLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace fulcrum
