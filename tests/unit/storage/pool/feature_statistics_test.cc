#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "arrow/record_batch.h"
#include "stages/core/random.h"
#include "storage/pool/pool_manifest.h"

namespace fulcrum::storage {
namespace {

Matrix<float> RandomRows(std::size_t rows, std::size_t cols, double share_of_zeros) {
  Random random(11);
  Matrix<float> matrix(rows, cols);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t col = 0; col < cols; ++col) {
      const bool zero = random.Uniform() < share_of_zeros;
      matrix(row, col) = zero ? 0.0F : static_cast<float>(1000 + static_cast<double>(col) * random.Normal());
    }
  }
  return matrix;
}

/// By the textbook, in two passes over everything.
void ExpectAgreesWithTwoPasses(const FeatureStatistics& actual, MatrixView<const float> rows) {
  ASSERT_EQ(actual.rows(), static_cast<std::int64_t>(rows.rows()));
  ASSERT_EQ(actual.features(), rows.cols());
  for (std::size_t col = 0; col < rows.cols(); ++col) {
    double sum = 0, squares = 0, low = rows(0, col), high = rows(0, col);
    for (std::size_t row = 0; row < rows.rows(); ++row) {
      sum += rows(row, col);
      low = std::min<double>(low, rows(row, col));
      high = std::max<double>(high, rows(row, col));
    }
    const double mean = sum / static_cast<double>(rows.rows());
    for (std::size_t row = 0; row < rows.rows(); ++row) squares += (rows(row, col) - mean) * (rows(row, col) - mean);
    EXPECT_NEAR(actual.means()[col], mean, 1e-9 * std::abs(mean));
    EXPECT_NEAR(actual.DeviationOf(col), std::sqrt(squares / static_cast<double>(rows.rows() - 1)), 1e-8);
    EXPECT_EQ(actual.minima()[col], low);
    EXPECT_EQ(actual.maxima()[col], high);
  }
}

TEST(FeatureStatisticsTest, MergedBlocksAgreeWithTwoPassesOverAllRows) {
  const Matrix<float> rows = RandomRows(3000, 7, 0);
  FeatureStatistics merged;
  for (std::size_t first = 0; first < 3000; first += 700) {
    merged.Merge(FeatureStatistics::OfDense(rows.view().Rows(first, std::min<std::size_t>(700, 3000 - first))));
  }
  ExpectAgreesWithTwoPasses(merged, rows.view());
}

TEST(FeatureStatisticsTest, SparseBlocksCountTheirZeros) {
  const Matrix<float> rows = RandomRows(900, 5, 0.7);
  FeatureStatistics merged;
  for (std::size_t first = 0; first < 900; first += 300) {
    std::vector<std::int32_t> columns;
    std::vector<float> values;
    for (std::size_t row = first; row < first + 300; ++row) {
      for (std::size_t col = 0; col < 5; ++col) {
        // The first block ends before the last column, as if nobody had used that word yet.
        if (rows(row, col) == 0 || (first == 0 && col == 4)) continue;
        columns.push_back(static_cast<std::int32_t>(col));
        values.push_back(rows(row, col));
      }
    }
    merged.Merge(FeatureStatistics::OfSparse(300, columns, values));
  }
  Matrix<float> expected = rows.Clone();
  for (std::size_t row = 0; row < 300; ++row) expected(row, 4) = 0;
  ExpectAgreesWithTwoPasses(merged, expected.view());
}

TEST(FeatureStatisticsTest, ComeBackFromATable) {
  const Matrix<float> rows = RandomRows(100, 3, 0);
  const auto statistics = FeatureStatistics::OfDense(rows.view());
  const auto again = FeatureStatistics::FromBatch(*statistics.ToBatch({"a", "b", "c"}), 100);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->means(), statistics.means());
  EXPECT_EQ(again->DeviationOf(2), statistics.DeviationOf(2));
  EXPECT_EQ(again->names()[2], "c");
}

}  // namespace
}  // namespace fulcrum::storage
