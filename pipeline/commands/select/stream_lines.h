// Rows of a stream as lines of CSV, read as they arrive. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace fulcrum::pipeline {

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

}  // namespace fulcrum::pipeline
