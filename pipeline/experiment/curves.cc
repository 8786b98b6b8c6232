#include "pipeline/experiment/curves.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "stages/core/files.h"
#include "stages/core/number_text.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

void AddOnce(const std::string& name, std::vector<std::string>& names) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

}  // namespace

std::string MetricName(Metric metric) {
  switch (metric) {
    case Metric::kAccuracy:
      return "accuracy";
    case Metric::kF1:
      return "F1";
    case Metric::kMacroF1:
      return "macro-F1";
    case Metric::kLabelAccuracy:
      return "accuracy of the labels";
  }
  return "";
}

double AreaUnder(const Curve& curve, std::size_t last_round, Metric metric) {
  if (last_round == 0) return ValueOf(curve.points[0], metric);
  double area = 0;
  for (std::size_t round = 0; round < last_round; ++round) {
    area += (ValueOf(curve.points[round], metric) + ValueOf(curve.points[round + 1], metric)) / 2;
  }
  return area / static_cast<double>(last_round);
}

std::vector<const Curve*> CurveSet::Of(const std::string& task, const std::string& strategy) const {
  std::vector<const Curve*> found;
  for (const Curve& curve : curves_) {
    if (curve.task == task && curve.strategy == strategy) found.push_back(&curve);
  }
  std::ranges::sort(found, {}, [](const Curve* curve) { return curve->run; });
  return found;
}

std::vector<std::string> CurveSet::Tasks() const {
  std::vector<std::string> names;
  for (const Curve& curve : curves_) AddOnce(curve.task, names);
  return names;
}

std::vector<std::string> CurveSet::StrategiesOf(const std::string& task) const {
  std::vector<std::string> names;
  for (const Curve& curve : curves_) {
    if (curve.task == task && curve.strategy != kFullData) AddOnce(curve.strategy, names);
  }
  return names;
}

std::vector<double> CurveSet::ValuesAt(const std::string& task, const std::string& strategy, std::size_t round,
                                       Metric metric) const {
  std::vector<double> values;
  for (const Curve* curve : Of(task, strategy)) {
    if (round < curve->points.size()) values.push_back(ValueOf(curve->points[round], metric));
  }
  return values;
}

double CurveSet::FullDataMean(const std::string& task, Metric metric) const {
  const std::vector<double> values = ValuesAt(task, kFullData, 0, metric);
  if (values.empty()) return std::nan("");
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

std::size_t CurveSet::LastRound(const std::string& task) const {
  std::size_t last = std::numeric_limits<std::size_t>::max();
  for (const Curve& curve : curves_) {
    if (curve.task == task && curve.strategy != kFullData && !curve.points.empty()) {
      last = std::min(last, curve.points.size() - 1);
    }
  }
  return last == std::numeric_limits<std::size_t>::max() ? 0 : last;
}

namespace {

void AppendField(double value, std::string& text) {
  text.push_back(',');
  if (!std::isnan(value)) AppendNumber(value, text);
}

void AppendPoint(const CurvePoint& point, std::string& text) {
  absl::StrAppend(&text, ",", point.round, ",", point.labels);
  AppendField(point.accuracy, text);
  AppendField(point.f1, text);
  AppendField(point.queried_positive_share, text);
  absl::StrAppendFormat(&text, ",%.6f,%.6f,%.6f", point.train_seconds, point.predict_seconds, point.select_seconds);
  AppendField(point.macro_f1, text);
  AppendField(point.calibration_error, text);
  AppendField(point.label_accuracy, text);
  AppendField(point.paused_spammers, text);
  AppendField(point.paused_others, text);
  AppendField(point.cost, text);
  AppendField(point.seconds, text);
  text.push_back('\n');
}

}  // namespace

std::string CurvesTable(const CurveSet& curves) {
  std::string text =
      "task,strategy,run,round,labels,accuracy,f1,positive_share,train_seconds,predict_seconds,select_seconds,"
      "macro_f1,calibration_error,label_accuracy,paused_spammers,paused_others,cost,seconds\n";
  for (const Curve& curve : curves.all()) {
    const std::string names = absl::StrCat(curve.task, ",", curve.strategy, ",", curve.run);
    for (const CurvePoint& point : curve.points) {
      text.append(names);
      AppendPoint(point, text);
    }
  }
  return text;
}

namespace {

// checksum \t fingerprint \t task \t strategy \t run \t point \t point ...
constexpr std::size_t kFieldsBeforePoints = 4;

std::string FormatPoint(const CurvePoint& point) {
  std::string text = absl::StrCat(point.round, ",", point.labels);
  for (const double value :
       {point.accuracy, point.f1, point.queried_positive_share, point.train_seconds, point.predict_seconds,
        point.select_seconds, point.macro_f1, point.calibration_error, point.label_accuracy, point.paused_spammers,
        point.paused_others, point.cost, point.seconds}) {
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
                            &point.cost,
                            &point.seconds};
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
  return absl::StrCat(absl::Hex(ChecksumOf(body), absl::kZeroPad16), "\t", body);
}

std::optional<JournalEntry> ParseJournalLine(const std::string& line) {
  const std::size_t tab = line.find('\t');
  if (tab == std::string::npos) return std::nullopt;
  const std::string body = line.substr(tab + 1);
  std::uint64_t checksum = 0;
  if (!absl::SimpleHexAtoi(line.substr(0, tab), &checksum) || checksum != ChecksumOf(body)) {
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
