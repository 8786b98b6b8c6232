// What is wrong with a file, several problems in one message, so that they can be corrected together. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "arrow/array.h"
#include "stages/ingest/columns/number_columns.h"

namespace fulcrum::ingest {

class ProblemList {
 public:
  /// Problems shown in one message; the others are only counted.
  static constexpr std::size_t kMostShown = 5;

  /// `problem` says where and what: "line 5, column 'f2': 'abc' is not a number".
  void Add(std::string problem);
  bool empty() const { return count_ == 0; }
  bool full() const { return count_ >= kMostShown; }
  /// OK where there are none, else DataLoss with the file, the problems and what to do about them.
  absl::Status ToStatus(absl::string_view file, absl::string_view what_to_do) const;

 private:
  std::size_t count_ = 0;
  std::vector<std::string> shown_;
};

// What is wrong with a value that should be a feature, in words.

inline constexpr char kMissingValue[] = "the value is missing";

/// "'abc' is not a number", "'1e99' does not fit 32 bits".
std::string ComplaintAboutText(absl::string_view text);
std::string ComplaintAboutNumber(double value);

/// Of the value at a place that is not null.
template <typename ArrayType>
std::string ComplaintAt(const ArrayType& array, std::int64_t index) {
  if constexpr (kIsTextArray<ArrayType>) {
    const auto text = array.GetView(index);
    return ComplaintAboutText({text.data(), text.size()});
  } else {
    return ComplaintAboutNumber(NumberAt(array, index).value_or(0));
  }
}

}  // namespace fulcrum::ingest
