#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "stages/linalg/blas.h"
#include "stages/select/posterior/posterior.h"
#include "tests/support/matrices.h"

namespace fulcrum::select {
namespace {

/// Random points times the side of a hidden vector they lie on.
Matrix<double> SeparableConstraints(std::size_t count, std::size_t dims, std::uint64_t seed) {
  Matrix<double> points = testing::RandomMatrix(count, dims, seed);
  const Matrix<double> hidden = testing::RandomMatrix(1, dims, seed + 1000);
  for (std::size_t i = 0; i < count; ++i) {
    const double side = linalg::Dot(points.row(i), hidden.row(0)) > 0 ? 1 : -1;
    for (double& value : points.row(i)) value *= side;
  }
  return points;
}

TEST(VersionSpaceTest, EverySampleMeetsEveryConstraintAndLiesInTheBall) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const Matrix<double> constraints = SeparableConstraints(12, 6, seed);
    const VersionSpaceSample sample = SampleVersionSpace(constraints.view(), 100, seed);
    EXPECT_EQ(sample.dropped_count, 0u);
    ASSERT_EQ(sample.vectors.rows(), 100u);
    for (std::size_t h = 0; h < 100; ++h) {
      EXPECT_LE(linalg::Norm(sample.vectors.row(h)), 1 + 1e-12);
      for (std::size_t i = 0; i < constraints.rows(); ++i) {
        EXPECT_GE(linalg::Dot(constraints.row(i), sample.vectors.row(h)), -1e-12);
      }
    }
  }
}

TEST(VersionSpaceTest, SamplesAreUniform) {
  // A half disc cut by x > 0: the mean of x is 4 / (3 pi), of y zero, and y^2 has mean 1/4.
  Matrix<double> constraints(1, 2);
  constraints(0, 0) = 3;
  constraints(0, 1) = 0;
  const std::size_t count = 20000;
  const VersionSpaceSample sample = SampleVersionSpace(constraints.view(), count, 7);
  double x = 0, y = 0, y_squared = 0;
  for (std::size_t h = 0; h < count; ++h) {
    x += sample.vectors(h, 0) / count;
    y += sample.vectors(h, 1) / count;
    y_squared += sample.vectors(h, 1) * sample.vectors(h, 1) / count;
  }
  EXPECT_NEAR(x, 4 / (3 * std::acos(-1.0)), 0.01);
  EXPECT_NEAR(y, 0, 0.02);
  EXPECT_NEAR(y_squared, 0.25, 0.01);
}

TEST(VersionSpaceTest, TakesContradictionsForNoise) {
  Matrix<double> constraints(3, 2);
  constraints(0, 0) = constraints(1, 0) = 1;
  constraints(2, 0) = -1;
  constraints(0, 1) = constraints(1, 1) = constraints(2, 1) = 0;
  const VersionSpaceSample sample = SampleVersionSpace(constraints.view(), 20, 1);
  EXPECT_EQ(sample.dropped_count, 1u);
  for (std::size_t h = 0; h < 20; ++h) EXPECT_GE(sample.vectors(h, 0), 0);
}

TEST(VersionSpaceTest, WithoutConstraintsItIsTheBall) {
  const VersionSpaceSample sample = SampleVersionSpace(Matrix<double>(0, 3).view(), 50, 1);
  EXPECT_EQ(sample.vectors.rows(), 50u);
  EXPECT_NE(sample.vectors(0, 0), sample.vectors(1, 0));
}

TEST(SpanBasisTest, CoordinatesKeepInnerProductsInsideTheSpan) {
  const kernel::DenseFeatures features(testing::RandomMatrix(30, 5, 2));
  // A repeated row adds no direction.
  const SpanBasis basis(features, RowList{3, 3, 8, 1, 12, 20, 21, 22});
  EXPECT_EQ(basis.anchors().size(), 5u);
  RowList all;
  for (RowIndex row = 0; row < 30; ++row) all.push_back(row);
  const Matrix<double> coordinates = basis.Coordinates(all);
  for (std::size_t i = 0; i < 30; ++i) {
    for (std::size_t j = 0; j < 30; ++j) {
      EXPECT_NEAR(linalg::Dot(coordinates.row(i), coordinates.row(j)),
                  linalg::Dot(features.values().row(i), features.values().row(j)), 1e-10);
    }
  }
}

TEST(SpanBasisTest, AnchorWeightsEvaluateTheSameFunction) {
  const kernel::DenseFeatures features(testing::RandomMatrix(20, 12, 4));
  const SpanBasis basis(features, RowList{0, 5, 9, 14});
  ASSERT_EQ(basis.anchors().size(), 4u);
  const Matrix<double> function = testing::RandomMatrix(1, 4, 6);
  Matrix<double> weights = function.Clone();
  basis.ToAnchorWeights(weights.view());
  RowList all;
  for (RowIndex row = 0; row < 20; ++row) all.push_back(row);
  const Matrix<double> coordinates = basis.Coordinates(all);
  for (std::size_t i = 0; i < 20; ++i) {
    double value = 0;
    for (std::size_t j = 0; j < 4; ++j) {
      value += weights(0, j) * linalg::Dot(features.values().row(i), features.values().row(basis.anchors()[j]));
    }
    EXPECT_NEAR(value, linalg::Dot(coordinates.row(i), function.row(0)), 1e-10);
  }
}

}  // namespace
}  // namespace fulcrum::select
