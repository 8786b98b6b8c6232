#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"
#include "storage/log/event_log.h"

namespace fulcrum::storage {
namespace {

/// One line of a fixed length, so that a record replaces the one before completely.
std::string Format(const LogPosition& position) {
  const std::string content = absl::StrFormat("fulcrum high-water 1 %020d %016x ", position.sequence, position.chain);
  Checksum checksum;
  checksum.Add(content);
  return absl::StrCat(content, checksum.ToText(), "\n");
}

absl::Status FileError(const std::string& path, const char* doing) {
  return absl::InternalError(absl::StrCat("cannot ", doing, " '", path, "': ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<HighWaterFile> HighWaterFile::Open(const std::string& path) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) return FileError(path, "open");
  return HighWaterFile(path, descriptor);
}

absl::StatusOr<std::optional<LogPosition>> HighWaterFile::Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::optional<LogPosition>();
  std::ostringstream bytes;
  bytes << file.rdbuf();
  const std::string text = bytes.str();
  // A process that was killed before its first commit leaves an empty file.
  if (text.empty()) return std::optional<LogPosition>();
  LogPosition position;
  const int fields =
      std::sscanf(text.c_str(), "fulcrum high-water 1 %" SCNd64 " %" SCNx64, &position.sequence, &position.chain);
  if (fields == 2 && text == Format(position)) return std::optional(position);
  return absl::DataLossError(absl::StrCat("'", path, "' is damaged: it does not say which event was the last one"));
}

HighWaterFile::HighWaterFile(HighWaterFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), synced_(other.synced_) {}

HighWaterFile::~HighWaterFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::Status HighWaterFile::Record(const LogPosition& position) {
  synced_ = false;
  const std::string record = Format(position);
  const ssize_t written = pwrite(descriptor_, record.data(), record.size(), 0);
  return written == static_cast<ssize_t>(record.size()) ? absl::OkStatus() : FileError(path_, "write");
}

absl::Status HighWaterFile::Sync() {
  if (synced_) return absl::OkStatus();
  if (fdatasync(descriptor_) != 0) return FileError(path_, "sync");
  synced_ = true;
  return absl::OkStatus();
}

absl::Status CheckHighWater(EventLog& log, const std::optional<LogPosition>& known) {
  if (!known.has_value()) return absl::OkStatus();
  FULCRUM_ASSIGN_OR_RETURN(const std::int64_t last, log.LastSequence());
  if (known->sequence > last) {
    return absl::DataLossError(absl::StrCat("the log ends with event ", last, ", but event ", known->sequence,
                                            " was committed: ", known->sequence - last,
                                            " events are missing. Restore a backup"));
  }
  FULCRUM_ASSIGN_OR_RETURN(const auto chain, log.StoredChain(known->sequence));
  if (!chain.has_value() || *chain == known->chain) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("event ", known->sequence,
                                          " of the log is not the one that was committed: the log lost its end and was "
                                          "continued. Restore a backup"));
}

}  // namespace fulcrum::storage
