#include "stages/classify/model_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace fulcrum::classify {
namespace {

absl::Status SystemError(const char* action, const std::string& path, int error) {
  const std::string message = absl::StrCat("cannot ", action, " model file ", path, ": ", std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(message) : absl::UnavailableError(message);
}

/// 0, or the error number of the step that failed.
int WriteAndSync(const std::string& path, std::string_view content) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return errno;
  int error = 0;
  while (error == 0 && !content.empty()) {
    const ssize_t written = write(file, content.data(), content.size());
    if (written < 0) {
      error = errno == EINTR ? 0 : errno;
    } else {
      content.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  if (error == 0 && fsync(file) != 0) error = errno;
  if (close(file) != 0 && error == 0) error = errno;
  return error;
}

}  // namespace

absl::Status WriteModelFile(const std::string& path, std::string_view content) {
  const std::string unfinished = path + ".unfinished";
  int error = WriteAndSync(unfinished, content);
  if (error == 0 && rename(unfinished.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return absl::OkStatus();
  unlink(unfinished.c_str());
  return SystemError("write", path, error);
}

absl::StatusOr<std::string> ReadModelFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return SystemError("open", path, errno != 0 ? errno : EIO);
  std::string content{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (file.bad()) return SystemError("read", path, errno != 0 ? errno : EIO);
  return content;
}

}  // namespace fulcrum::classify
