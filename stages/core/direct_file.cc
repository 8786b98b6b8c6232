#include "stages/core/direct_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"

namespace fulcrum {
namespace {

// Large enough for a disk's full speed, and few: one is filled, one is written, one lies between.
constexpr std::size_t kBufferBytes = std::size_t{4} << 20;
constexpr int kBuffers = 3;
// What devices ask of memory, offsets and lengths.
constexpr std::size_t kAlignment = 4096;

}  // namespace

DirectFile::DirectFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {
  for (int i = 0; i < kBuffers; ++i) {
    empty_.emplace_back(static_cast<char*>(std::aligned_alloc(kAlignment, kBufferBytes)));
  }
  thread_ = std::thread([this] { WriteAlong(); });
}

absl::StatusOr<std::unique_ptr<DirectFile>> DirectFile::Create(const std::string& path) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
  int descriptor = open(path.c_str(), kFlags | O_DIRECT, 0666);
  if (descriptor < 0 && errno == EINVAL) descriptor = open(path.c_str(), kFlags, 0666);
  if (descriptor < 0) {
    return absl::InvalidArgumentError(absl::StrCat("cannot write '", path, "': ", std::strerror(errno)));
  }
  return std::unique_ptr<DirectFile>(new DirectFile(path, descriptor));
}

DirectFile::~DirectFile() {
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  close(descriptor_);
}

absl::Status DirectFile::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    if (filling_ == nullptr) {
      FULCRUM_ASSIGN_OR_RETURN(filling_, TakeBuffer());
    }
    const std::size_t count = std::min(bytes.size(), kBufferBytes - filled_);
    std::memcpy(filling_.get() + filled_, bytes.data(), count);
    filled_ += count;
    size_ += static_cast<std::int64_t>(count);
    bytes.remove_prefix(count);
    if (filled_ == kBufferBytes) Send();
  }
  return absl::OkStatus();
}

absl::StatusOr<DirectFile::Buffer> DirectFile::TakeBuffer() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !empty_.empty(); });
  FULCRUM_RETURN_IF_ERROR(result_);
  Buffer buffer = std::move(empty_.back());
  empty_.pop_back();
  if (buffer == nullptr) return absl::ResourceExhaustedError(absl::StrCat("no memory to write '", path_, "'"));
  return buffer;
}

void DirectFile::Send() {
  // What is too much of the last piece is cut off in the end.
  const std::size_t whole = (filled_ + kAlignment - 1) / kAlignment * kAlignment;
  std::memset(filling_.get() + filled_, 0, whole - filled_);
  {
    const std::scoped_lock lock(mutex_);
    sent_.push_back({std::move(filling_), whole, size_ - static_cast<std::int64_t>(filled_)});
  }
  filled_ = 0;
  changed_.notify_all();
}

void DirectFile::WriteAlong() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !sent_.empty(); });
    if (sent_.empty()) return;
    Piece piece = std::move(sent_.front());
    sent_.pop_front();
    if (result_.ok()) {
      lock.unlock();
      const absl::Status written = WritePiece(piece);
      lock.lock();
      result_ = written;
    }
    empty_.push_back(std::move(piece.buffer));
    changed_.notify_all();
  }
}

bool DirectFile::StopBeingDirect() const {
  const int error = errno, flags = fcntl(descriptor_, F_GETFL);
  const bool stopped = flags >= 0 && (flags & O_DIRECT) != 0 && fcntl(descriptor_, F_SETFL, flags & ~O_DIRECT) == 0;
  errno = error;
  return stopped;
}

absl::Status DirectFile::WritePiece(const Piece& piece) const {
  for (std::size_t done = 0; done < piece.bytes;) {
    const ssize_t written = pwrite(descriptor_, piece.buffer.get() + done, piece.bytes - done,
                                   piece.offset + static_cast<std::int64_t>(done));
    if (written >= 0) done += static_cast<std::size_t>(written);
    if (written >= 0 || errno == EINTR) continue;
    // Some file systems let a file be opened so and then do not write to it.
    if (errno == EINVAL && StopBeingDirect()) continue;
    return Error("write");
  }
  return absl::OkStatus();
}

absl::Status DirectFile::Finish() {
  if (filled_ > 0) Send();
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
  FULCRUM_RETURN_IF_ERROR(result_);
  if (ftruncate(descriptor_, size_) != 0) return Error("end");
  if (fsync(descriptor_) != 0) return Error("make durable");
  return absl::OkStatus();
}

absl::Status DirectFile::Error(std::string_view doing) const {
  const int error = errno;
  const std::string message = absl::StrCat("cannot ", std::string(doing), " '", path_, "': ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT) {
    return absl::ResourceExhaustedError(absl::StrCat(message, "; make room and run again"));
  }
  return absl::UnavailableError(message);
}

}  // namespace fulcrum
