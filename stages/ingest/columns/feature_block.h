// Features of a record batch as a block of rows: dense, or sparse.
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "arrow/array.h"
#include "arrow/type_fwd.h"
#include "stages/core/matrix.h"
#include "stages/ingest/columns/column_roles.h"
#include "stages/ingest/columns/column_values.h"

namespace fulcrum::ingest {

// What is wrong with a file, several things in one message, so that a file is corrected once and not line by line. Not
// thread-safe.

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

/// A value that cannot be a feature.
struct BadCell {
  std::size_t row = 0;    ///< in the batch
  std::size_t part = 0;   ///< index into the parts that were asked for
  std::string complaint;  ///< "'abc' is not a number"
};

/// Which bad cells are of interest.
struct BadCellRequest {
  std::size_t most = 5;
  bool one_a_row = false;
};

/// Fills the rows of `out`, part after part: numbers of any type, text that reads as one, or lists of numbers; `out`
/// has as many columns as the parts are wide. T is double, or float, for which a value must fit. Returns the first bad
/// cells in reading order; empty if every value is finite. Rows are decoded in parallel.
template <typename T>
std::vector<BadCell> DecodeFeatures(const arrow::RecordBatch& batch, const std::vector<FeaturePart>& parts,
                                    MatrixView<T> out, const BadCellRequest& request);

/// Appends the rows of a sparse pair, their elements sorted; a bad row appends a row without elements.
std::vector<BadCell> DecodeSparse(const arrow::RecordBatch& batch, const FeaturePart& pair, SparseMatrix& out,
                                  const BadCellRequest& request);

/// Numbers, and text that may read as one.
bool IsFeatureType(const arrow::DataType& type);
/// Integers, floating-point numbers, decimals, and truth values, which are 0 and 1.
bool IsNumberType(const arrow::DataType& type);
bool IsIntegerType(const arrow::DataType& type);

}  // namespace fulcrum::ingest
