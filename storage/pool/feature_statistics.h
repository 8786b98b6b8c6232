// Statistics of every feature over all rows of a pool, for z-scores and for people.
//
// Blocks of rows have statistics of their own, which are merged in the order of the rows, so the result does not depend
// on the number of threads (Chan, Golub and LeVeque's update). A plain value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "arrow/type_fwd.h"
#include "stages/core/matrix.h"

namespace fulcrum::storage {

class FeatureStatistics {
 public:
  FeatureStatistics() = default;
  static FeatureStatistics OfDense(MatrixView<const float> rows);
  /// `columns` and `values` are the elements of `rows` rows; what is not among them is zero.
  static FeatureStatistics OfSparse(std::int64_t rows, std::span<const std::int32_t> columns,
                                    std::span<const float> values);

  /// Adds the rows of a later block. Features that one of the two does not have are zero there.
  void Merge(const FeatureStatistics& other);

  std::int64_t rows() const { return rows_; }
  std::size_t features() const { return means_.size(); }
  const std::vector<double>& means() const { return means_; }
  const std::vector<double>& minima() const { return minima_; }
  const std::vector<double>& maxima() const { return maxima_; }
  /// Sample deviation (n - 1).
  double DeviationOf(std::size_t feature) const;

  /// As a table with one row per feature, and back. `names` may be fewer than there are features. DataLoss for any
  /// other table.
  std::shared_ptr<arrow::RecordBatch> ToBatch(const std::vector<std::string>& names) const;
  static absl::StatusOr<FeatureStatistics> FromBatch(const arrow::RecordBatch& batch, std::int64_t rows);
  /// Empty if the features have none.
  const std::vector<std::string>& names() const { return names_; }

 private:
  void Widen(std::size_t features);

  std::int64_t rows_ = 0;
  std::vector<double> means_;
  std::vector<double> squares_;  // sums of squared distances from the mean
  std::vector<double> minima_;
  std::vector<double> maxima_;
  std::vector<std::string> names_;  // only of those that were read
};

}  // namespace fulcrum::storage
