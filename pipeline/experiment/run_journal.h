// The file in which finished runs of an experiment are recorded, so that a stopped experiment can be resumed.
//
// One line per curve, appended and made durable when the curve is complete; a line that was truncated by a crash is
// detected by its checksum and removed. Thread-safe for Append.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/experiment/curves.h"

namespace fulcrum::pipeline {

/// A curve and the fingerprint of everything that decides it.
struct JournalEntry {
  std::uint64_t fingerprint = 0;
  Curve curve = {};
};

class RunJournal {
 public:
  /// Opens or creates the file and reads its valid lines.
  static absl::StatusOr<std::unique_ptr<RunJournal>> Open(const std::string& path);
  ~RunJournal();
  RunJournal(const RunJournal&) = delete;
  RunJournal& operator=(const RunJournal&) = delete;

  /// The content of the file when it was opened.
  const std::vector<JournalEntry>& entries() const { return entries_; }
  /// After OK the curve is durable.
  absl::Status Append(const JournalEntry& entry);

 private:
  RunJournal(std::string path, int descriptor);
  absl::Status Load();

  const std::string path_;
  const int descriptor_;
  std::vector<JournalEntry> entries_;
  std::mutex mutex_;
};

/// A line of the journal without its end, and back; nothing if it is damaged.
std::string FormatJournalLine(const JournalEntry& entry);
std::optional<JournalEntry> ParseJournalLine(const std::string& line);

}  // namespace fulcrum::pipeline
