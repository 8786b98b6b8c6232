#include "pipeline/experiment/run_journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "stages/classify/model_file.h"
#include "stages/core/number_text.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

// checksum \t fingerprint \t task \t strategy \t run \t point \t point ...
constexpr std::size_t kFieldsBeforePoints = 4;

std::string FormatPoint(const CurvePoint& point) {
  std::string text = absl::StrCat(point.round, ",", point.labels);
  for (const double value : {point.accuracy, point.f1, point.queried_positive_share, point.train_seconds,
                             point.predict_seconds, point.select_seconds, point.macro_f1, point.calibration_error,
                             point.label_accuracy, point.paused_spammers, point.paused_others, point.cost}) {
    text.push_back(',');
    AppendNumber(value, text);
  }
  return text;
}

bool ParsePoint(absl::string_view text, CurvePoint& point) {
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  double* const values[] = {&point.accuracy,
                            &point.f1,
                            &point.queried_positive_share,
                            &point.train_seconds,
                            &point.predict_seconds,
                            &point.select_seconds,
                            &point.macro_f1,
                            &point.calibration_error,
                            &point.label_accuracy,
                            &point.paused_spammers,
                            &point.paused_others,
                            &point.cost};
  if (parts.size() != 2 + std::size(values)) return false;
  if (!absl::SimpleAtoi(parts[0], &point.round) || !absl::SimpleAtoi(parts[1], &point.labels)) return false;
  for (std::size_t i = 0; i < std::size(values); ++i) {
    const std::optional<double> value = ParseNumber(parts[2 + i]);
    if (!value) return false;
    *values[i] = *value;
  }
  return true;
}

absl::Status JournalError(const std::string& path, absl::string_view doing) {
  const int error = errno;
  const std::string message = absl::StrCat("cannot ", doing, " the journal '", path, "': ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT) {
    return absl::ResourceExhaustedError(absl::StrCat(message, "; make room and run again with --resume"));
  }
  return absl::UnavailableError(message);
}

absl::StatusOr<std::string> ReadAll(const std::string& path, int descriptor) {
  std::string text;
  std::vector<char> buffer(1 << 16);
  while (true) {
    const ssize_t count = pread(descriptor, buffer.data(), buffer.size(), static_cast<off_t>(text.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return JournalError(path, "read");
    if (count == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

std::string FormatJournalLine(const JournalEntry& entry) {
  std::string body = absl::StrCat(absl::Hex(entry.fingerprint, absl::kZeroPad16), "\t", entry.curve.task, "\t",
                                  entry.curve.strategy, "\t", entry.curve.run);
  for (const CurvePoint& point : entry.curve.points) absl::StrAppend(&body, "\t", FormatPoint(point));
  return absl::StrCat(absl::Hex(classify::ChecksumOf(body), absl::kZeroPad16), "\t", body);
}

std::optional<JournalEntry> ParseJournalLine(const std::string& line) {
  const std::size_t tab = line.find('\t');
  if (tab == std::string::npos) return std::nullopt;
  const std::string body = line.substr(tab + 1);
  std::uint64_t checksum = 0;
  if (!absl::SimpleHexAtoi(line.substr(0, tab), &checksum) || checksum != classify::ChecksumOf(body)) {
    return std::nullopt;
  }
  const std::vector<std::string> fields = absl::StrSplit(body, '\t');
  JournalEntry entry;
  if (fields.size() < kFieldsBeforePoints || !absl::SimpleHexAtoi(fields[0], &entry.fingerprint) ||
      !absl::SimpleAtoi(fields[3], &entry.curve.run)) {
    return std::nullopt;
  }
  entry.curve.task = fields[1];
  entry.curve.strategy = fields[2];
  for (std::size_t i = kFieldsBeforePoints; i < fields.size(); ++i) {
    if (!ParsePoint(fields[i], entry.curve.points.emplace_back())) return std::nullopt;
  }
  return entry;
}

RunJournal::RunJournal(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

RunJournal::~RunJournal() {
  close(descriptor_);
}

absl::StatusOr<std::unique_ptr<RunJournal>> RunJournal::Open(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) return JournalError(path, "open");
  std::unique_ptr<RunJournal> journal(new RunJournal(path, descriptor));
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    return absl::UnavailableError(
        absl::StrCat("another experiment is writing to '", path, "'; wait for its end, or choose another --out"));
  }
  FULCRUM_RETURN_IF_ERROR(journal->Load());
  return journal;
}

absl::Status RunJournal::Load() {
  FULCRUM_ASSIGN_OR_RETURN(const std::string text, ReadAll(path_, descriptor_));
  std::size_t whole = 0;  // bytes of good lines
  while (true) {
    const std::size_t end = text.find('\n', whole);
    if (end == std::string::npos) break;
    std::optional<JournalEntry> entry = ParseJournalLine(text.substr(whole, end - whole));
    if (!entry) break;
    entries_.push_back(*std::move(entry));
    whole = end + 1;
  }
  // What follows the last good line was being written when the program was stopped.
  if (whole < text.size() && ftruncate(descriptor_, static_cast<off_t>(whole)) != 0) {
    return JournalError(path_, "shorten");
  }
  if (lseek(descriptor_, static_cast<off_t>(whole), SEEK_SET) < 0) return JournalError(path_, "position in");
  return absl::OkStatus();
}

absl::Status RunJournal::Append(const JournalEntry& entry) {
  const std::string line = FormatJournalLine(entry) + "\n";
  const std::lock_guard lock(mutex_);
  std::string_view left = line;
  while (!left.empty()) {
    const ssize_t written = write(descriptor_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return JournalError(path_, "write to");
    left.remove_prefix(static_cast<std::size_t>(written));
  }
  if (fdatasync(descriptor_) != 0) return JournalError(path_, "make durable");
  return absl::OkStatus();
}

}  // namespace fulcrum::pipeline
