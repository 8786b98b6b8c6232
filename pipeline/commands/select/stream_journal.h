// The file of `fulcrum select --stream --state`: every decision and the state of the selector, durable before anyone
// is told.
//
// A group of decisions and the state after it are one record, appended and synced as a whole: after a kill the file
// ends with a whole record, or with a part of one that nobody was told about, which is cut off. A row that is offered
// again, as after a kill, gets the answer it was given. Rows are known by their ids, the latest million of them. A file
// that has grown large is rewritten with what is still needed.
//
// One process at a time has the file open. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "stages/core/files.h"

namespace fulcrum::pipeline {

struct StreamAnswer {
  std::uint64_t id = 0;       ///< a hash of the id
  std::uint64_t content = 0;  ///< a hash of the features
  double score = 0;
  double threshold = 0;
  bool take = false;
};

class StreamJournal {
 public:
  struct Limits {
    std::size_t remembered = 1000000;                        ///< answers that are given again
    std::uint64_t compact_bytes = std::uint64_t{256} << 20;  ///< a file of this size is rewritten
  };

  /// Opens or creates the file. DataLoss if it is damaged or something else, Unavailable if another process has it
  /// open.
  static absl::StatusOr<std::unique_ptr<StreamJournal>> Open(const std::string& path, const Limits& limits);
  ~StreamJournal();
  StreamJournal(const StreamJournal&) = delete;
  StreamJournal& operator=(const StreamJournal&) = delete;

  /// The selector's state after the last record; empty in a new file.
  const std::string& state() const { return state_; }
  /// The answer that was given to this id; null if there was none, or too long ago.
  const StreamAnswer* Find(std::uint64_t id) const;

  /// Durable when it returns. After an error nothing more can be appended.
  absl::Status Append(std::span<const StreamAnswer> answers, std::string state);

 private:
  StreamJournal(std::string path, const Limits& limits) : path_(std::move(path)), limits_(limits) {}
  absl::Status Read();
  absl::Status OpenForAppending();
  absl::Status WriteAll(absl::string_view bytes);
  /// Replaces the file by one with one record.
  absl::Status Compact();
  void Remember(const StreamAnswer& answer);
  absl::Status Error(absl::string_view doing) const;

  std::string path_;
  Limits limits_;
  std::unique_ptr<FileLock> lock_;
  int descriptor_ = -1;
  std::uint64_t bytes_ = 0;
  std::string state_;
  std::unordered_map<std::uint64_t, StreamAnswer> answers_;
  std::deque<std::uint64_t> order_;  // ids, the oldest first
};

}  // namespace fulcrum::pipeline
