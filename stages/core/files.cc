#include "stages/core/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"

namespace fulcrum {
namespace {

// mkostemp creates files that only the owner can read; outputs get the permissions of any other new file.
mode_t NewFileMode() {
  const mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

// Renaming onto a symbolic link would replace the link instead of its target.
std::string FollowLinks(const std::string& path) {
  std::error_code error;
  const auto followed = std::filesystem::is_symlink(path, error) ? std::filesystem::weakly_canonical(path, error)
                                                                 : std::filesystem::path(path);
  return error ? path : followed.string();
}

/// Room on the disk or in a table of the kernel, which may come back.
bool IsLackOfRoom(int error) {
  return error == ENOSPC || error == EDQUOT || error == ENOMEM || error == EMFILE || error == ENFILE;
}

absl::Status CannotWrite(const std::string& path) {
  const int error = errno;
  const std::string message = absl::StrCat("cannot write to '", path, "': ", std::strerror(error));
  if (IsLackOfRoom(error)) return absl::ResourceExhaustedError(absl::StrCat(message, "; make room and run again"));
  return absl::InvalidArgumentError(absl::StrCat(message, "; check that its folder exists and may be written to"));
}

}  // namespace

AtomicFile::AtomicFile(std::string path, std::string temporary_path, int descriptor)
    : path_(std::move(path)), temporary_path_(std::move(temporary_path)), descriptor_(descriptor) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_path_(std::exchange(other.temporary_path_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_path_.empty()) unlink(temporary_path_.c_str());
}

absl::StatusOr<AtomicFile> AtomicFile::Create(const std::string& given_path) {
  const std::string path = FollowLinks(given_path);
  struct stat existing {};
  const bool exists = stat(path.c_str(), &existing) == 0;
  if (exists && S_ISDIR(existing.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("cannot write to '", path, "': it is a folder; name a file"));
  }
  if (exists && !S_ISREG(existing.st_mode)) {
    const int descriptor = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor < 0) return CannotWrite(path);
    return AtomicFile(path, "", descriptor);
  }
  std::string temporary_path = absl::StrCat(path, ".tmp-XXXXXX");
  const int descriptor = mkostemp(temporary_path.data(), O_CLOEXEC);
  if (descriptor < 0) return CannotWrite(path);
  AtomicFile file(path, std::move(temporary_path), descriptor);
  if (fchmod(descriptor, exists ? existing.st_mode & 07777 : NewFileMode()) != 0) {
    return file.Error("cannot set the permissions of");
  }
  return file;
}

absl::Status AtomicFile::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Error("cannot write");
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::Sync() {
  if (descriptor_ < 0) return absl::OkStatus();
  // Pipes and devices cannot be synced.
  if (fsync(descriptor_) != 0 && errno != EINVAL) return Error("cannot make durable");
  return Close();
}

absl::Status AtomicFile::Close() {
  if (descriptor_ < 0) return absl::OkStatus();
  if (close(std::exchange(descriptor_, -1)) != 0) return Error("cannot close");
  return absl::OkStatus();
}

absl::Status AtomicFile::Commit(bool durable) {
  FULCRUM_RETURN_IF_ERROR(durable ? Sync() : Close());
  if (temporary_path_.empty()) return absl::OkStatus();
  if (rename(temporary_path_.c_str(), path_.c_str()) != 0) return Error("cannot rename to its final name");
  temporary_path_.clear();
  return !durable ? absl::OkStatus() : SyncFolder(std::filesystem::path(path_).parent_path().string());
}

absl::Status AtomicFile::Error(std::string_view doing) const {
  const int error = errno;
  const std::string message = absl::StrCat(std::string(doing), " '", path_, "': ", std::strerror(error));
  if (IsLackOfRoom(error)) {
    return absl::ResourceExhaustedError(absl::StrCat(message, "; make room and run again"));
  }
  return absl::UnavailableError(message);
}

std::string Checksum::ToText() const {
  return absl::StrCat("fnv1a:", absl::Hex(value_, absl::kZeroPad16));
}

absl::StatusOr<std::string> ChecksumOfFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("'", path, "' is missing or cannot be read"));
  Checksum checksum;
  std::vector<char> buffer(1 << 20);
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || file.gcount() > 0) {
    checksum.Add({buffer.data(), static_cast<std::size_t>(file.gcount())});
  }
  if (file.bad()) return absl::DataLossError(absl::StrCat("'", path, "' cannot be read to its end"));
  return checksum.ToText();
}

namespace {

constexpr std::array<std::uint32_t, 256> MakeCrcTable() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0xEDB88320 : 0);
    table[byte] = value;
  }
  return table;
}

}  // namespace

void Crc32::Add(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> kTable = MakeCrcTable();
  for (const char byte : bytes) state_ = kTable[(state_ ^ static_cast<unsigned char>(byte)) & 0xFF] ^ (state_ >> 8);
}

std::string Crc32::ToText() const {
  return absl::StrCat("crc32:", absl::Hex(value(), absl::kZeroPad8));
}

absl::Status ReplaceFile(const std::string& path, std::string_view content, bool durable) {
  FULCRUM_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  FULCRUM_RETURN_IF_ERROR(file.Write(content));
  return file.Commit(durable);
}

absl::Status SyncFile(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return CannotWrite(path);
  const bool synced = fsync(descriptor) == 0;
  const int error = errno;
  close(descriptor);
  if (synced) return absl::OkStatus();
  if (IsLackOfRoom(error)) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot make '", path, "' durable: ", std::strerror(error)));
  }
  return absl::UnavailableError(absl::StrCat("cannot make '", path, "' durable: ", std::strerror(error)));
}

absl::Status SyncFolder(const std::string& folder) {
  const std::string path = folder.empty() ? "." : folder;
  const int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return CannotWrite(path);
  // Some file systems do not support syncing a folder and return an error.
  const bool synced = fsync(descriptor) == 0 || errno == EINVAL || errno == EROFS;
  const int error = errno;
  close(descriptor);
  if (synced) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot make the names in '", path, "' durable: ", std::strerror(error)));
}

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
