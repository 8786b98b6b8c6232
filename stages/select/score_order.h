// The order of scores: larger first, NaN last, ties to the smaller row.
//
// Every sort, heap and maximum over scores in stages/select uses it. Comparing doubles with < is not an order if one of
// them is NaN: sorting is undefined then, and a loop over equal values may never end. Pure functions, thread-safe.
#pragma once

#include <cmath>
#include <span>

#include "absl/status/status.h"
#include "stages/core/rows.h"

namespace fulcrum::select {

/// A strict weak order of scores alone, for std::sort and the like: larger first, then NaN. All NaN are equal.
struct LargerFirst {
  bool operator()(double a, double b) const { return a > b || (std::isnan(b) && !std::isnan(a)); }
};

/// Whether the score `a` of row `row_a` goes before the score `b` of row `row_b`. A total order if rows differ.
inline bool GoesBefore(double a, RowIndex row_a, double b, RowIndex row_b) {
  const LargerFirst larger_first;
  return larger_first(a, b) || (!larger_first(b, a) && row_a < row_b);
}

/// FailedPrecondition that names the first row whose score is NaN: a batch chosen by such scores would be arbitrary.
/// scores[i] belongs to rows[i]; `what` says what was computed.
absl::Status CheckScores(const char* what, std::span<const RowIndex> rows, std::span<const double> scores);

}  // namespace fulcrum::select
