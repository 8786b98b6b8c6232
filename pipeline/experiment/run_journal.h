// The file in which finished runs are kept while an experiment goes on, so that one that was stopped goes on from
// there.
//
// One line a curve, appended and made durable when the curve is whole; a line that was cut short by a crash is found by
// its checksum and removed. Thread-safe for Append.
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
  /// Opens or makes the file and reads what is whole in it.
  static absl::StatusOr<std::unique_ptr<RunJournal>> Open(const std::string& path);
  ~RunJournal();
  RunJournal(const RunJournal&) = delete;
  RunJournal& operator=(const RunJournal&) = delete;

  /// What was in the file when it was opened.
  const std::vector<JournalEntry>& entries() const { return entries_; }
  /// Once this returns OK the curve survives whatever happens to the program.
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
