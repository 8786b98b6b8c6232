#include <vector>

#include "gtest/gtest.h"
#include "stages/core/rows.h"
#include "stages/leverage/landmarks.h"
#include "stages/linalg/blas.h"
#include "tests/support/matrices.h"

namespace fulcrum::leverage {
namespace {

constexpr kernel::KernelFunction kViewRbf{.type = kernel::KernelType::kRbf, .sigma = 2};
constexpr std::size_t kViewRows = 60, kLandmarks = 20, kVectors = 2;

class LandmarkViewTest : public ::testing::Test {
 protected:
  LandmarkViewTest() {
    for (std::size_t s = 0; s < kLandmarks; ++s) landmarks_.push_back(static_cast<RowIndex>(3 * s));
    const Matrix<double> weights = testing::RandomMatrix(kLandmarks, kVectors, 2);
    for (std::size_t s = 0; s < kLandmarks; ++s) {
      for (std::size_t j = 0; j < kVectors; ++j) projection_(s, j) = static_cast<float>(weights(s, j));
    }
  }
  /// <K(s, .), K(s, .) as far as the other landmarks see it>, by a system of equations of their own.
  double SeenByOthers(std::size_t s) const {
    Matrix<double> others(kLandmarks - 1, kLandmarks - 1), own(1, kLandmarks - 1);
    const auto number = [&](std::size_t i) { return landmarks_[i < s ? i : i + 1]; };
    for (std::size_t i = 0; i + 1 < kLandmarks; ++i) {
      own(0, i) = kernel_(landmarks_[s], number(i));
      for (std::size_t j = 0; j + 1 < kLandmarks; ++j) others(i, j) = kernel_(number(i), number(j));
    }
    const Matrix<double> lower = *linalg::FactorCholesky(std::move(others));
    linalg::SolveLowerForRows(lower.view(), own.view());
    double seen = 0;
    for (const double value : own.row(0)) seen += value * value;
    return seen;
  }
  /// The sum of the landmarks' kernel functions at a row; of a landmark's own only what the others see of it.
  double Expected(std::size_t row, std::size_t j) const {
    double sum = 0;
    for (std::size_t s = 0; s < kLandmarks; ++s) {
      const double value = landmarks_[s] == row ? SeenByOthers(s) : kernel_(landmarks_[s], row);
      sum += static_cast<double>(projection_(s, j)) * value;
    }
    return sum;
  }

  const Matrix<double> points_ = testing::RandomMatrix(kViewRows, 3, 1);
  const kernel::DenseFeatures features_{points_.Clone()};
  const Matrix<double> kernel_ = testing::NaiveKernel(kViewRbf, points_.view(), points_.view());
  RowList landmarks_;
  Matrix<float> projection_ = Matrix<float>(kLandmarks, kVectors);
};

TEST_F(LandmarkViewTest, ALandmarkIsShownAsTheOthersSeeIt) {
  Matrix<double> products(kLandmarks, kLandmarks);
  for (std::size_t i = 0; i < kLandmarks; ++i) {
    for (std::size_t j = 0; j < kLandmarks; ++j) products(i, j) = kernel_(landmarks_[i], landmarks_[j]);
  }
  const std::vector<double> unseen = KernelSubspace::OfInnerProducts(std::move(products))->OwnParts();
  const kernel::KernelTiles<float> columns(kViewRbf, features_, landmarks_);
  RowList rows(kViewRows - 10);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<RowIndex>(i + 10);
  const Matrix<float> shown = VectorsSeen({&columns, &projection_, unseen}).of_block(rows, 0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < kVectors; ++j) {
      EXPECT_NEAR(static_cast<double>(shown(i, j)), Expected(rows[i], j), 1e-4) << "row " << rows[i];
    }
  }
}

}  // namespace
}  // namespace fulcrum::leverage
