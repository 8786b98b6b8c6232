#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/commands/select/select_stream.h"
#include "stages/classify/model_file.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

constexpr absl::string_view kHeader = "FULCRUM STREAM 1\n";
// Of a record: the length of what follows, and its checksum.
constexpr std::size_t kFrameBytes = 2 * sizeof(std::uint64_t);

std::string Record(std::span<const StreamAnswer> answers, const std::string& state) {
  classify::ByteWriter body;
  body.Put(static_cast<std::uint64_t>(answers.size()));
  for (const StreamAnswer& answer : answers) {
    body.Put(answer.id);
    body.Put(answer.content);
    body.Put(answer.score);
    body.Put(answer.threshold);
    body.Put(static_cast<std::uint8_t>(answer.take));
  }
  body.PutText(state);
  classify::ByteWriter record;
  record.Put(static_cast<std::uint64_t>(body.bytes().size()));
  record.Put(ChecksumOf(body.bytes()));
  record.PutText(body.bytes());
  return record.Take();
}

struct Body {
  std::vector<StreamAnswer> answers;
  std::string state;
};

std::optional<Body> ParseBody(std::string_view bytes) {
  classify::ByteReader in(bytes);
  Body body;
  const auto count = in.Get<std::uint64_t>();
  if (count > bytes.size()) return std::nullopt;
  for (std::uint64_t i = 0; i < count; ++i) {
    StreamAnswer& answer = body.answers.emplace_back();
    answer.id = in.Get<std::uint64_t>();
    answer.content = in.Get<std::uint64_t>();
    answer.score = in.Get<double>();
    answer.threshold = in.Get<double>();
    answer.take = in.Get<std::uint8_t>() != 0;
  }
  if (!in.ok()) return std::nullopt;
  body.state = bytes.substr(bytes.size() - in.remaining());
  return body;
}

}  // namespace

StreamJournal::~StreamJournal() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::Status StreamJournal::Error(absl::string_view doing) const {
  return absl::InternalError(absl::StrCat("cannot ", doing, " ", path_, ": ", std::strerror(errno)));
}

absl::StatusOr<std::unique_ptr<StreamJournal>> StreamJournal::Open(const std::string& path, const Limits& limits) {
  std::unique_ptr<StreamJournal> journal(new StreamJournal(path, limits));
  // The file is replaced when it has grown, so that a lock on itself would be one on a file that is gone.
  FULCRUM_ASSIGN_OR_RETURN(FileLock lock, FileLock::Take(path + ".lock"));
  journal->lock_ = std::make_unique<FileLock>(std::move(lock));
  std::error_code absent;
  const std::uintmax_t size = std::filesystem::file_size(path, absent);
  if (!absent && size > 0) {
    FULCRUM_RETURN_IF_ERROR(journal->Read());
  } else {
    FULCRUM_RETURN_IF_ERROR(ReplaceFile(path, std::string_view(kHeader.data(), kHeader.size())));
    journal->bytes_ = kHeader.size();
  }
  FULCRUM_RETURN_IF_ERROR(journal->OpenForAppending());
  return journal;
}

absl::Status StreamJournal::Read() {
  std::ifstream file(path_, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (file.bad()) return Error("read");
  if (bytes.compare(0, kHeader.size(), kHeader.data(), kHeader.size()) != 0) {
    return absl::DataLossError(absl::StrCat(path_, " is not the state of a stream"));
  }
  std::size_t place = kHeader.size();
  while (bytes.size() - place >= kFrameBytes) {
    classify::ByteReader frame(std::string_view(bytes).substr(place, kFrameBytes));
    const auto length = frame.Get<std::uint64_t>(), checksum = frame.Get<std::uint64_t>();
    if (length > bytes.size() - place - kFrameBytes) break;
    const std::string_view content = std::string_view(bytes).substr(place + kFrameBytes, length);
    std::optional<Body> body;
    if (ChecksumOf(content) == checksum) body = ParseBody(content);
    const std::size_t end = place + kFrameBytes + length;
    if (!body) {
      // A power loss may leave the length of the last record without its content.
      if (end == bytes.size()) break;
      return absl::DataLossError(absl::StrCat(path_, " is damaged at byte ", place,
                                              "\n  what to do: restore it from a backup, or begin with a new file"));
    }
    for (const StreamAnswer& answer : body->answers) Remember(answer);
    state_ = std::move(body->state);
    place = end;
  }
  bytes_ = place;
  return absl::OkStatus();
}

absl::Status StreamJournal::OpenForAppending() {
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor_ < 0) return Error("open");
  // An incomplete record was not answered.
  if (ftruncate(descriptor_, static_cast<off_t>(bytes_)) != 0) return Error("write to");
  if (lseek(descriptor_, 0, SEEK_END) < 0) return Error("write to");
  return absl::OkStatus();
}

void StreamJournal::Remember(const StreamAnswer& answer) {
  if (!answers_.insert_or_assign(answer.id, answer).second) return;
  order_.push_back(answer.id);
  if (order_.size() <= limits_.remembered) return;
  answers_.erase(order_.front());
  order_.pop_front();
}

const StreamAnswer* StreamJournal::Find(std::uint64_t id) const {
  const auto found = answers_.find(id);
  return found == answers_.end() ? nullptr : &found->second;
}

absl::Status StreamJournal::WriteAll(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Error("write to");
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return fdatasync(descriptor_) == 0 ? absl::OkStatus() : Error("sync");
}

absl::Status StreamJournal::Append(std::span<const StreamAnswer> answers, std::string state) {
  if (descriptor_ < 0) return absl::FailedPreconditionError(absl::StrCat("writing to ", path_, " failed before"));
  const std::string record = Record(answers, state);
  if (const absl::Status written = WriteAll(record); !written.ok()) {
    // What is in the file now is not known; the next process finds out.
    close(std::exchange(descriptor_, -1));
    return written;
  }
  bytes_ += record.size();
  state_ = std::move(state);
  for (const StreamAnswer& answer : answers) Remember(answer);
  return bytes_ < limits_.compact_bytes ? absl::OkStatus() : Compact();
}

absl::Status StreamJournal::Compact() {
  std::vector<StreamAnswer> answers;
  answers.reserve(order_.size());
  for (const std::uint64_t id : order_) answers.push_back(answers_.at(id));
  const std::string content = absl::StrCat(kHeader, Record(answers, state_));
  FULCRUM_RETURN_IF_ERROR(ReplaceFile(path_, content));
  bytes_ = content.size();
  // With many answers remembered the file would be rewritten again and again.
  limits_.compact_bytes = std::max<std::uint64_t>(limits_.compact_bytes, 2 * bytes_);
  return OpenForAppending();
}

}  // namespace fulcrum::pipeline
