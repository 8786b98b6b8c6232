// Columns that are replaced by what the quantiles of their values say, for columns that are skewed or whose borders are
// steps.
//
// `quantile`: a value becomes the normal quantile of the share of values below it, ties at the middle of their shares,
// scaled to a variance of 1; between the learned values it is interpolated. `bins`: a column becomes up to 15 columns,
// one per threshold at the sixteenths of its values (at every value if these are at most 16), 1 at and above it and 0
// below, scaled to a total variance of 1. The squared distance of two rows is then the number of thresholds between
// them, summed over the columns: a linear kernel adds up a step function per column, and an rbf kernel falls with the
// L1 distance of ranks, as the share of random trees in which two rows share a leaf does. Immutable after Fit;
// thread-safe.
#pragma once

#include <cstddef>
#include <vector>

#include "stages/core/matrix.h"

namespace fulcrum::ingest {

class QuantileColumns {
 public:
  enum class Kind { kNormal, kBins };
  static constexpr std::size_t kMostBins = 16;

  struct Column {
    std::vector<double> values = {};  ///< ascending: where scores are known, or thresholds
    std::vector<double> scores = {};  ///< kNormal: by value
    double scale = 1;                 ///< kBins
  };

  /// Replaces nothing.
  QuantileColumns() = default;
  /// Learns from these rows.
  QuantileColumns(Kind kind, ConstMatrixView sample);

  bool empty() const { return columns_.empty(); }
  Kind kind() const { return kind_; }
  const std::vector<Column>& columns() const { return columns_; }
  /// The features with every column replaced, in order. They must have the columns of the sample.
  Matrix<double> Replace(ConstMatrixView features) const;

 private:
  static Column LearnNormal(const std::vector<double>& sorted);
  static Column LearnBins(const std::vector<double>& sorted);
  std::size_t WidthOf(const Column& column) const;

  Kind kind_ = Kind::kNormal;
  std::vector<Column> columns_;
};

}  // namespace fulcrum::ingest
