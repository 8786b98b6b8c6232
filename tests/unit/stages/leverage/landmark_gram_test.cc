#include <numeric>

#include "gtest/gtest.h"
#include "stages/leverage/landmarks.h"
#include "tests/support/matrices.h"

namespace fulcrum::leverage {
namespace {

constexpr kernel::KernelFunction kGramRbf{.type = kernel::KernelType::kRbf, .sigma = 3};

RowList Range(RowIndex first, std::size_t count) {
  RowList rows(count);
  std::iota(rows.begin(), rows.end(), first);
  return rows;
}

/// sum over rows of K(i, x) K(j, x), one number at a time.
Matrix<double> NaiveGram(ConstMatrixView points, const RowList& landmarks, const RowList& rows) {
  const Matrix<double> kernel = testing::NaiveKernel(kGramRbf, points, points);
  Matrix<double> gram = Matrix<double>::Zero(landmarks.size(), landmarks.size());
  for (std::size_t i = 0; i < landmarks.size(); ++i) {
    for (std::size_t j = 0; j < landmarks.size(); ++j) {
      for (const RowIndex row : rows) gram(i, j) += kernel(landmarks[i], row) * kernel(landmarks[j], row);
    }
  }
  return gram;
}

void ExpectNear(const Matrix<double>& a, const Matrix<double>& b, double relative) {
  for (std::size_t i = 0; i < a.rows(); ++i) {
    for (std::size_t j = 0; j < a.cols(); ++j) ASSERT_NEAR(a(i, j), b(i, j), relative * (1 + b(i, j)));
  }
}

TEST(LandmarkGram, IsTheSumOverTheRows) {
  const Matrix<double> points = testing::RandomMatrix(900, 4, 1);
  const kernel::DenseFeatures features(points.Clone());
  const RowList landmarks = Range(10, 40), rows = Range(100, 700);
  const kernel::KernelTiles<float> columns(kGramRbf, features, landmarks);
  LandmarkGram gram(columns);
  gram.Add(rows, BlocksInTurns());
  ExpectNear(gram.Symmetric(), NaiveGram(points.view(), landmarks, rows), 1e-6);
}

TEST(LandmarkGram, WhatIsAddedCanBeTakenAway) {
  const Matrix<double> points = testing::RandomMatrix(600, 4, 2);
  const kernel::DenseFeatures features(points.Clone());
  const RowList landmarks = Range(0, 30);
  const kernel::KernelTiles<float> columns(kGramRbf, features, landmarks);
  LandmarkGram gram(columns);
  gram.Add(Range(0, 500), BlocksInTurns());
  gram.Subtract(Range(0, 200), BlocksInTurns());
  gram.Add(Range(500, 100), BlocksInTurns());
  ExpectNear(gram.Symmetric(), NaiveGram(points.view(), landmarks, Range(200, 400)), 1e-5);
  gram.Clear();
  EXPECT_EQ(gram.Symmetric()(3, 5), 0);
}

}  // namespace
}  // namespace fulcrum::leverage
