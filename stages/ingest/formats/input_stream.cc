#include "stages/ingest/formats/input_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "arrow/buffer.h"
#include "arrow/filesystem/filesystem.h"
#include "arrow/filesystem/localfs.h"
#include "arrow/io/compressed.h"
#include "arrow/io/interfaces.h"
#include "arrow/memory_pool.h"
#include "arrow/util/compression.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"

namespace fulcrum::ingest {

arrow::MemoryPool* CappedPool(std::int64_t limit) {
  static std::mutex mutex;
  static auto* const pools = new std::map<std::int64_t, std::unique_ptr<arrow::CappedMemoryPool>>();
  const std::scoped_lock lock(mutex);
  std::unique_ptr<arrow::CappedMemoryPool>& pool = (*pools)[limit];
  if (pool == nullptr) pool = std::make_unique<arrow::CappedMemoryPool>(arrow::default_memory_pool(), limit);
  return pool.get();
}

absl::Status CheckColumnCount(std::int64_t columns, const InputLimits& limits, absl::string_view path) {
  if (columns <= limits.max_columns) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path, " has ", columns, " columns; at most ", limits.max_columns,
                                          " are read. Put the features into one column of lists."));
}

absl::Status CheckRowGroupBytes(std::int64_t bytes, int group, const InputLimits& limits, const std::string& path) {
  if (bytes >= 0 && bytes <= limits.max_row_group_bytes) return absl::OkStatus();
  if (bytes < 0) {
    return absl::DataLossError(
        absl::StrCat(path, ", row group ", group, ", claims to hold ", bytes, " bytes; the file is damaged"));
  }
  return absl::DataLossError(absl::StrCat(path, ", row group ", group, ", claims to hold ", bytes, " bytes; at most ",
                                          limits.max_row_group_bytes,
                                          " are read. Write the file with smaller row groups."));
}

namespace {

struct Compression {
  absl::string_view ending;
  arrow::Compression::type type;
};

constexpr Compression kCompressions[] = {
    {".gz", arrow::Compression::GZIP},
    {".zst", arrow::Compression::ZSTD},
};

std::optional<Compression> CompressionOf(absl::string_view path) {
  for (const Compression& compression : kCompressions) {
    if (absl::EndsWithIgnoreCase(path, compression.ending)) return compression;
  }
  return std::nullopt;
}

absl::Status CheckIsFile(const arrow::fs::FileInfo& info, const std::string& path) {
  if (info.type() == arrow::fs::FileType::NotFound) {
    return absl::NotFoundError(absl::StrCat("there is no file '", path, "'; check the path"));
  }
  if (info.type() == arrow::fs::FileType::Directory) {
    return absl::NotFoundError(absl::StrCat("'", path, "' is a folder; name a file inside it"));
  }
  return absl::OkStatus();
}

/// A file without a name, for as long as the process lives.
absl::StatusOr<int> OpenTemporary() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  std::string path = ((error ? std::filesystem::path("/tmp") : folder) / "fulcrum-input-XXXXXX").string();
  const int descriptor = mkostemp(path.data(), O_CLOEXEC);
  if (descriptor < 0) {
    return absl::UnavailableError(absl::StrCat("cannot create '", path, "': ", std::strerror(errno),
                                               "; set TMPDIR to a folder that may be written to"));
  }
  unlink(path.c_str());
  return descriptor;
}

absl::Status CopyAll(int from, int to, const std::string& name) {
  std::vector<char> buffer(std::size_t{1} << 20);
  for (;;) {
    const ssize_t count = read(from, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return absl::DataLossError(absl::StrCat("cannot read '", name, "': ", std::strerror(errno)));
    if (count == 0) return absl::OkStatus();
    for (ssize_t done = 0; done < count;) {
      const ssize_t written = write(to, buffer.data() + done, static_cast<std::size_t>(count - done));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) {
        return absl::ResourceExhaustedError(absl::StrCat("cannot keep what comes from '", name,
                                                         "' in a temporary file: ", std::strerror(errno),
                                                         "; set TMPDIR to a folder with room"));
      }
      done += written;
    }
  }
}

absl::StatusOr<std::string> CopyPipe(const std::string& path) {
  const int from = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (from < 0) return absl::NotFoundError(absl::StrCat("cannot open '", path, "': ", std::strerror(errno)));
  const absl::Cleanup close_it = [from] { close(from); };
  struct stat info {};
  if (fstat(from, &info) == 0 && S_ISREG(info.st_mode)) return path;
  FULCRUM_ASSIGN_OR_RETURN(const int to, OpenTemporary());
  FULCRUM_RETURN_IF_ERROR(CopyAll(from, to, path));
  return absl::StrCat("/proc/self/fd/", to);
}

/// Where the bytes of a descriptor are; a pipe is copied once.
absl::StatusOr<std::string> PathOfDescriptor(const std::string& path) {
  static std::mutex mutex;
  static auto* const copies = new std::map<std::string, std::string>();
  const std::scoped_lock lock(mutex);
  std::string& copy = (*copies)[path];
  if (copy.empty()) {
    FULCRUM_ASSIGN_OR_RETURN(copy, CopyPipe(path));
  }
  return copy;
}

struct Location {
  std::shared_ptr<arrow::fs::FileSystem> file_system;
  std::string path;   // as the file system knows it
  std::string doing;  // for messages
  arrow::fs::FileInfo info;
};

absl::StatusOr<Location> Locate(const std::string& path, std::int64_t max_memory_bytes) {
  FULCRUM_RETURN_IF_ERROR(CheckScheme(path));
  Location location;
  location.doing = absl::StrCat("cannot open '", path, "'");
  const arrow::io::IOContext context(CappedPool(max_memory_bytes));
  if (absl::StrContains(path, "://")) {
    FULCRUM_ASSIGN_OR_RETURN(location.file_system,
                             FromArrow(arrow::fs::FileSystemFromUri(path, context, &location.path), location.doing));
  } else {
    // Asked for a path, Arrow's own function forgets the context and so the limit.
    location.file_system =
        std::make_shared<arrow::fs::LocalFileSystem>(arrow::fs::LocalFileSystemOptions::Defaults(), context);
    location.path = std::filesystem::absolute(path).string();
    if (IsDescriptorPath(path)) {
      FULCRUM_ASSIGN_OR_RETURN(location.path, PathOfDescriptor(path));
    }
  }
  FULCRUM_ASSIGN_OR_RETURN(location.info, FromArrow(location.file_system->GetFileInfo(location.path), location.doing));
  FULCRUM_RETURN_IF_ERROR(CheckIsFile(location.info, path));
  return location;
}

// Keeps the codec, which Arrow's stream only borrows, alive for as long as the stream.
absl::StatusOr<std::shared_ptr<arrow::io::InputStream>> Decompressed(std::shared_ptr<arrow::io::InputStream> raw,
                                                                     arrow::Compression::type type,
                                                                     const std::string& doing,
                                                                     std::int64_t max_memory_bytes) {
  FULCRUM_ASSIGN_OR_RETURN(std::shared_ptr<arrow::util::Codec> codec,
                           FromArrow(arrow::util::Codec::Create(type), doing));
  FULCRUM_ASSIGN_OR_RETURN(
      std::shared_ptr<arrow::io::InputStream> stream,
      FromArrow(arrow::io::CompressedInputStream::Make(codec.get(), raw, CappedPool(max_memory_bytes)), doing));
  return std::shared_ptr<arrow::io::InputStream>(stream.get(), [stream, codec](arrow::io::InputStream*) {});
}

}  // namespace

std::optional<arrow::Compression::type> CompressionOfPath(absl::string_view path) {
  const std::optional<Compression> compression = CompressionOf(path);
  if (!compression) return std::nullopt;
  return compression->type;
}

absl::string_view WithoutCompressionEnding(absl::string_view path) {
  if (const auto compression = CompressionOf(path)) path.remove_suffix(compression->ending.size());
  return path;
}

bool IsDescriptorPath(absl::string_view path) {
  if (path == "/dev/stdin") return true;
  if (!absl::ConsumePrefix(&path, "/dev/fd/") && !absl::ConsumePrefix(&path, "/proc/self/fd/")) return false;
  return !path.empty() && std::all_of(path.begin(), path.end(), absl::ascii_isdigit);
}

absl::StatusOr<std::string> FirstBytes(const std::string& path, std::int64_t count) {
  FULCRUM_ASSIGN_OR_RETURN(const auto stream, OpenInput(path));
  FULCRUM_ASSIGN_OR_RETURN(const auto buffer, FromArrow(stream->Read(count), absl::StrCat("cannot read '", path, "'")));
  return buffer->ToString();
}

absl::Status CheckScheme(const std::string& path) {
  if (!absl::StrContains(path, "://") || absl::StartsWith(path, "file://")) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("cannot open '", path,
                                                 "': only paths and file:// URIs can be read; copy the data to a "
                                                 "local or mounted disk first"));
}

absl::StatusOr<FileStamp> StampOf(const std::string& path) {
  FULCRUM_ASSIGN_OR_RETURN(const Location location, Locate(path, kMostInputMemory));
  return FileStamp{location.info.size(), location.info.mtime().time_since_epoch().count()};
}

absl::StatusOr<std::shared_ptr<arrow::io::InputStream>> OpenInput(const std::string& path,
                                                                  std::int64_t max_memory_bytes) {
  FULCRUM_ASSIGN_OR_RETURN(const Location location, Locate(path, max_memory_bytes));
  FULCRUM_ASSIGN_OR_RETURN(auto raw, FromArrow(location.file_system->OpenInputStream(location.path), location.doing));
  const auto compression = CompressionOf(path);
  if (!compression) return raw;
  return Decompressed(std::move(raw), compression->type, location.doing, max_memory_bytes);
}

absl::StatusOr<std::shared_ptr<arrow::io::RandomAccessFile>> OpenRandomAccess(const std::string& path,
                                                                              std::int64_t max_memory_bytes) {
  FULCRUM_ASSIGN_OR_RETURN(const Location location, Locate(path, max_memory_bytes));
  if (CompressionOf(path)) {
    return absl::DataLossError(absl::StrCat(location.doing,
                                            ": this format cannot be read from a compressed file; "
                                            "decompress it first"));
  }
  return FromArrow(location.file_system->OpenInputFile(location.path), location.doing);
}

namespace {

constexpr std::int64_t kReadBytes = 1 << 20;

std::optional<std::string> EndOfStream(std::string line) {
  if (line.empty()) return std::nullopt;
  return line;
}

}  // namespace

LineReader::LineReader(std::shared_ptr<arrow::io::InputStream> stream, std::string doing)
    : stream_(std::move(stream)), doing_(std::move(doing)) {}

absl::StatusOr<LineReader> LineReader::Open(const std::string& path, std::int64_t max_memory_bytes) {
  FULCRUM_ASSIGN_OR_RETURN(auto stream, OpenInput(path, max_memory_bytes));
  return LineReader(std::move(stream), absl::StrCat("cannot read '", path, "'"));
}

absl::StatusOr<std::optional<std::string>> LineReader::Next() {
  std::string line;
  for (;;) {
    if (position_ == block_.size()) {
      FULCRUM_RETURN_IF_ERROR(ReadBlock());
      if (block_.empty()) return EndOfStream(std::move(line));
    }
    SkipSecondHalfOfLineEnd();
    const std::size_t end = std::min(block_.find_first_of("\r\n", position_), block_.size());
    line.append(block_, position_, end - position_);
    position_ = end;
    if (line.size() > kLongestLineBytes) {
      return absl::DataLossError(absl::StrCat(doing_, ": a line is longer than ", kLongestLineBytes,
                                              " bytes; this does not look like a text file"));
    }
    if (end < block_.size()) {
      after_carriage_return_ = block_[position_++] == '\r';
      return line;
    }
  }
}

absl::Status LineReader::ReadBlock() {
  FULCRUM_ASSIGN_OR_RETURN(const auto buffer, FromArrow(stream_->Read(kReadBytes), doing_));
  block_ = buffer->ToString();
  position_ = 0;
  return absl::OkStatus();
}

void LineReader::SkipSecondHalfOfLineEnd() {
  if (after_carriage_return_ && position_ < block_.size() && block_[position_] == '\n') ++position_;
  after_carriage_return_ = false;
}

}  // namespace fulcrum::ingest
