#include "pipeline/text_sink.h"

#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "stages/core/atomic_file.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

class FileSink final : public TextSink {
 public:
  explicit FileSink(AtomicFile file) : file_(std::move(file)) {}
  absl::Status Write(std::string_view text) override { return file_.Write(text); }
  absl::Status Finish() override { return file_.Sync(); }
  absl::Status Commit() override { return file_.Commit(); }

 private:
  AtomicFile file_;
};

class GzipSink final : public TextSink {
 public:
  explicit GzipSink(AtomicFile file) : file_(std::move(file)), buffer_(1 << 16) {
    constexpr int kGzipHeader = 16, kMemoryLevel = 8;
    usable_ = deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + kGzipHeader, kMemoryLevel,
                           Z_DEFAULT_STRATEGY) == Z_OK;
  }
  ~GzipSink() override {
    if (usable_) deflateEnd(&stream_);
  }

  absl::Status Write(std::string_view text) override { return Deflate(text, Z_NO_FLUSH); }
  absl::Status Finish() override {
    FULCRUM_RETURN_IF_ERROR(Deflate({}, Z_FINISH));
    return file_.Sync();
  }
  absl::Status Commit() override { return file_.Commit(); }

 private:
  absl::Status Deflate(std::string_view text, int flush) {
    if (!usable_) return absl::ResourceExhaustedError("zlib has no memory to compress with; run again");
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream_.avail_in = static_cast<uInt>(text.size());
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(buffer_.data());
      stream_.avail_out = static_cast<uInt>(buffer_.size());
      deflate(&stream_, flush);
      FULCRUM_RETURN_IF_ERROR(file_.Write({buffer_.data(), buffer_.size() - stream_.avail_out}));
    } while (stream_.avail_out == 0);
    return absl::OkStatus();
  }

  AtomicFile file_;
  std::vector<char> buffer_;
  z_stream stream_{};
  bool usable_ = false;
};

class StandardOutputSink final : public TextSink {
 public:
  absl::Status Write(std::string_view text) override {
    buffer_.append(text);
    return buffer_.size() < kBufferBytes ? absl::OkStatus() : Finish();
  }

  absl::Status Finish() override {
    std::string_view left = buffer_;
    while (!left.empty()) {
      const ssize_t written = write(STDOUT_FILENO, left.data(), left.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) {
        return absl::UnavailableError(absl::StrCat("cannot write to standard output: ", std::strerror(errno)));
      }
      left.remove_prefix(static_cast<std::size_t>(written));
    }
    buffer_.clear();
    return absl::OkStatus();
  }
  absl::Status Commit() override { return absl::OkStatus(); }

 private:
  static constexpr std::size_t kBufferBytes = 1 << 16;
  std::string buffer_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TextSink>> OpenTextSink(const std::string& path) {
  if (path == "-") return std::make_unique<StandardOutputSink>();
  FULCRUM_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  if (absl::EndsWithIgnoreCase(path, ".gz")) return std::make_unique<GzipSink>(std::move(file));
  return std::make_unique<FileSink>(std::move(file));
}

}  // namespace fulcrum::pipeline
