// `fulcrum select --stream`: rows from standard input, and for each at once whether to label it.
//
// The first line has the names of the columns, which are those of the pool. All lines that have arrived are decided
// together, written to the state file, if there is one, and then answered.
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
#include "pipeline/commands/select/select_inputs.h"
#include "pipeline/round/round.h"
#include "stages/core/files.h"
#include "stages/stream/stream_selector.h"

namespace fulcrum::pipeline {

/// A share from "1%" or "0.01", labels per time from "200/h" (also /s, /m and /d).
absl::StatusOr<stream::Budget> ParseBudget(absl::string_view text);

/// Everything that can be checked without a file.
absl::Status ValidateStreamOptions(const SelectOptions& options);

/// Trains the classifier as `spec` says and answers rows until standard input ends.
absl::Status SelectFromStream(const SelectOptions& options, const SelectInputs& inputs, const RoundSpec& spec);

// Rows of a stream as lines of CSV, read as they arrive. Not thread-safe.

struct StreamLine {
  std::string text;
  std::uint64_t number = 0;  ///< from 1
};

/// The lines of a descriptor, in groups of what has arrived. Empty lines are left out.
class LineReader {
 public:
  explicit LineReader(int descriptor) : descriptor_(descriptor) {}
  /// Waits for a line or more; none at the end of the input. DataLoss for a line of more than 16 MiB, and if it cannot
  /// be read.
  absl::StatusOr<std::vector<StreamLine>> Next();

 private:
  absl::Status Read();
  void Add(std::string text, std::vector<StreamLine>& lines);

  const int descriptor_;
  std::string rest_;
  std::size_t searched_ = 0;
  std::uint64_t number_ = 0;
  bool ended_ = false;
};

/// DataLoss with the number of the line.
absl::Status BadStreamLine(std::uint64_t number, absl::string_view what);
/// The values of a line; DataLoss for a quote that is not closed.
absl::StatusOr<std::vector<std::string>> SplitStreamLine(const StreamLine& line);

// The file of `fulcrum select --stream --state`: every decision and the state of the selector, durable before anyone
// is told.
//
// A group of decisions and the state after it are one record, appended and synced as a whole: after a kill the file
// ends with a whole record, or with a part of one that was not answered, which is cut off. A row that is offered
// again, as after a kill, gets the answer it was given. Rows are known by their ids, the latest million of them. A file
// that has grown large is rewritten with what is still needed.
//
// One process at a time has the file open. Not thread-safe.

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
