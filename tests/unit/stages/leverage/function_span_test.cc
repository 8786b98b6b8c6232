#include <numeric>

#include "gtest/gtest.h"
#include "stages/leverage/landmarks.h"
#include "stages/linalg/top_eigen.h"
#include "tests/support/matrices.h"

namespace fulcrum::leverage {
namespace {

constexpr kernel::KernelFunction kSpanRbf{.type = kernel::KernelType::kRbf, .sigma = 2};

TEST(KernelSubspace, OwnPartsAreWhatTheOtherFunctionsDoNotSee) {
  // More than a block of them.
  constexpr std::size_t kFunctions = 150;
  const Matrix<double> points = testing::RandomMatrix(kFunctions, 4, 1);
  const Matrix<double> products = testing::NaiveKernel(kSpanRbf, points.view(), points.view());
  const std::vector<double> parts = KernelSubspace::OfInnerProducts(products.Clone())->OwnParts();
  // The inverse by way of all eigenpairs.
  const linalg::FullEigen eigen = *linalg::DecomposeSymmetric(products.Clone());
  for (std::size_t s = 0; s < kFunctions; ++s) {
    double inverse = 0;
    for (std::size_t i = 0; i < kFunctions; ++i) inverse += eigen.vectors(i, s) * eigen.vectors(i, s) / eigen.values[i];
    EXPECT_NEAR(parts[s], 1 / inverse, 1e-9) << s;
  }
}

TEST(KernelSubspace, FunctionsThatDependOnEachOtherAreRefused) {
  Matrix<double> products = Matrix<double>::Zero(2, 2);
  products(0, 0) = products(0, 1) = products(1, 0) = 1;
  products(1, 1) = 0.5;
  EXPECT_EQ(KernelSubspace::OfInnerProducts(std::move(products)).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(KernelSubspace, TheSpanOfAllRowsHasTheEigenvaluesOfTheirKernel) {
  constexpr std::size_t kRows = 80;
  const Matrix<double> points = testing::RandomMatrix(kRows, 4, 2);
  const Matrix<double> kernel = testing::NaiveKernel(kSpanRbf, points.view(), points.view());
  const KernelSubspace span = *KernelSubspace::OfInnerProducts(kernel.Clone());
  Matrix<double> gram = Matrix<double>::Zero(kRows, kRows);
  for (std::size_t i = 0; i < kRows; ++i) {
    for (std::size_t j = 0; j < kRows; ++j) {
      for (std::size_t x = 0; x < kRows; ++x) gram(i, j) += kernel(i, x) * kernel(j, x);
    }
  }
  const auto solution = span.Solve(std::move(gram), kRows, 0.7, 1, {});
  ASSERT_TRUE(solution.ok()) << solution.status();
  const linalg::FullEigen eigen = *linalg::DecomposeSymmetric(kernel.Clone());
  for (std::size_t j = 0; j < solution->eigen.rank; ++j) {
    EXPECT_NEAR(solution->eigen.values[j], eigen.values[kRows - 1 - j], 1e-6) << j;
  }
  EXPECT_NEAR(solution->captured_share, 1, 1e-6);
}

TEST(KernelSubspace, ManyNearlyEqualEigenvaluesAreLeftToTheDenseSolver) {
  // As of a kernel that is narrower than the distance between any two rows: half of the eigenvectors are needed.
  constexpr std::size_t kFunctions = 400;
  Matrix<double> products = Matrix<double>::Zero(kFunctions, kFunctions);
  for (std::size_t i = 0; i < kFunctions; ++i) products(i, i) = 1;
  const KernelSubspace span = *KernelSubspace::OfInnerProducts(products.Clone());
  // The class has twice the trace that the functions capture.
  const auto solution = span.Solve(std::move(products), 2 * kFunctions, 0.25, 1, {});
  ASSERT_TRUE(solution.ok()) << solution.status();
  EXPECT_EQ(solution->eigen.engine, "dense");
  EXPECT_LT(solution->eigen.products, kFunctions / 4);
  EXPECT_EQ(solution->eigen.rank, kFunctions / 2);
  EXPECT_NEAR(solution->eigen.trace_share, 0.25, 1e-9);
  EXPECT_NEAR(solution->captured_share, 0.5, 1e-9);
  // A refinement begins with more vectors than the rank.
  EXPECT_EQ(solution->eigen.vectors.rows(), kMostRefinedVectors);
  EXPECT_NEAR(linalg::RitzValue(solution->eigen, kMostRefinedVectors - 1), 1, 1e-9);
}

}  // namespace
}  // namespace fulcrum::leverage
