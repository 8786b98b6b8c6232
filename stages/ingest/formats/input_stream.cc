#include "stages/ingest/formats/input_stream.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
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
  return absl::ResourceExhaustedError(absl::StrCat(path, " has ", columns, " columns; at most ", limits.max_columns,
                                                   " are read. Put the features into one column of lists."));
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

struct Location {
  std::shared_ptr<arrow::fs::FileSystem> file_system;
  std::string path;   // as the file system knows it
  std::string doing;  // for messages
  arrow::fs::FileInfo info;
};

absl::StatusOr<Location> Locate(const std::string& path, std::int64_t max_memory_bytes) {
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
