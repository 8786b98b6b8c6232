#include <numeric>

#include "gtest/gtest.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/leverage/leverage_scores.h"
#include "stages/linalg/blas.h"
#include "tests/support/matrices.h"

namespace fulcrum::leverage {
namespace {

class WarmStartTest : public ::testing::Test {
 protected:
  LeverageScores Score(const StartSubspace& start = {}) {
    auto scores = ComputeLeverage(
        linalg::DenseSymmetricOperator(kernel_.matrix()),
        {.tau = 0.75, .engine = "krylov", .start = start.vectors.view(), .start_multiplied = start.multiplied.view()});
    EXPECT_TRUE(scores.ok()) << scores.status();
    return *std::move(scores);
  }

  /// Rows [0, size) with `moved` of them replaced by rows from beyond.
  static RowList Rows(std::size_t size, std::size_t moved) {
    RowList rows(size);
    std::iota(rows.begin(), rows.end(), 0);
    for (std::size_t i = 0; i < moved; ++i) rows[i * 7] = static_cast<RowIndex>(size + i);
    return rows;
  }

  static constexpr std::size_t kSize = 900;
  kernel::DenseFeatures features_{testing::RandomMatrix(1200, 5, 1)};
  kernel::RowSetKernel kernel_{{.type = kernel::KernelType::kRbf, .sigma = 4}, features_};
};

TEST_F(WarmStartTest, CarriesTheProductsOver) {
  kernel_.Update(Rows(kSize, 0));
  WarmStart warm;
  warm.Remember(kernel_.rows(), Score().eigen);
  RowList rows = Rows(kSize, 5);
  rows.resize(rows.size() - 10);  // ten more leave than enter
  kernel_.Update(rows);
  const StartSubspace start = warm.For(kernel_);
  ASSERT_FALSE(start.multiplied.empty());
  Matrix<double> expected(start.vectors.rows(), kSize - 10);
  linalg::Gemm(linalg::Transpose::kNo, linalg::Transpose::kNo, 1.0, start.vectors.view(), kernel_.matrix(), 0.0,
               expected.view());
  for (std::size_t i = 0; i < expected.rows(); ++i) {
    for (std::size_t j = 0; j < kSize - 10; ++j) ASSERT_NEAR(start.multiplied(i, j), expected(i, j), 1e-9);
  }
}

TEST_F(WarmStartTest, GivesTheColdScoresWithFewerProducts) {
  kernel_.Update(Rows(kSize, 0));
  WarmStart warm;
  warm.Remember(kernel_.rows(), Score().eigen);
  for (std::size_t moved : {1, 5, 40}) {
    kernel_.Update(Rows(kSize, moved));
    const auto cold = Score();
    const auto started = Score(warm.For(kernel_));
    ASSERT_EQ(cold.eigen.rank, started.eigen.rank);
    for (std::size_t i = 0; i < kSize; ++i) ASSERT_NEAR(cold.scores[i], started.scores[i], 1e-8) << moved << " moved";
    EXPECT_LT(started.eigen.products, cold.eigen.products) << moved << " moved";
  }
}

TEST_F(WarmStartTest, CarriesOverToAKernelThatIsRecomputed) {
  const auto score = [&](const kernel::TiledKernel& kernel, const StartSubspace& start) {
    auto scores = ComputeLeverage(
        kernel,
        {.tau = 0.75, .engine = "tiled", .start = start.vectors.view(), .start_multiplied = start.multiplied.view()});
    EXPECT_TRUE(scores.ok()) << scores.status();
    return *std::move(scores);
  };
  const RowList rows = Rows(kSize, 0);
  const kernel::TiledKernel before(kernel_.kernel(), features_, rows);
  WarmStart warm;
  warm.Remember(rows, score(before, {}).eigen);
  for (const std::size_t moved : {1, 40, 110}) {
    RowList rows_now = Rows(kSize, moved);
    rows_now.resize(rows_now.size() - 5);
    const kernel::TiledKernel now(kernel_.kernel(), features_, rows_now);
    const StartSubspace start = warm.For(now);
    ASSERT_FALSE(start.vectors.empty()) << moved << " moved";
    if (moved < 100) {
      Matrix<double> expected(start.vectors.rows(), rows_now.size());
      now.Apply(start.vectors.view(), expected.view());
      for (std::size_t i = 0; i < expected.rows(); ++i) {
        for (std::size_t j = 0; j < expected.cols(); ++j) ASSERT_NEAR(start.multiplied(i, j), expected(i, j), 1e-9);
      }
    } else {
      EXPECT_TRUE(start.multiplied.empty()) << "correcting so much costs more than multiplying afresh";
    }
    const LeverageScores cold = score(now, {}), started = score(now, start);
    ASSERT_EQ(cold.eigen.rank, started.eigen.rank);
    for (std::size_t i = 0; i < rows_now.size(); ++i) ASSERT_NEAR(cold.scores[i], started.scores[i], 1e-8);
  }
}

TEST_F(WarmStartTest, StartsColdIfTooMuchIsNew) {
  kernel_.Update(Rows(kSize, 0));
  WarmStart warm;
  EXPECT_TRUE(warm.For(kernel_).vectors.empty()) << "nothing remembered yet";
  warm.Remember(kernel_.rows(), Score().eigen);
  RowList beyond(600);
  std::iota(beyond.begin(), beyond.end(), 600);
  kernel_.Update(beyond);
  EXPECT_TRUE(warm.For(kernel_).vectors.empty());
}

TEST_F(WarmStartTest, GoesDenseAtOnceOnlyForNearlyTheRowsThatWereDense) {
  kernel_.Update(Rows(60, 0));
  WarmStart warm;
  LeverageScores small = Score();
  ASSERT_EQ(small.eigen.engine, "dense") << "so few rows always are";
  warm.Remember(kernel_.rows(), std::move(small.eigen));
  kernel_.Update(Rows(60, 3));
  EXPECT_TRUE(warm.For(kernel_).dense_at_once);
  // The class has grown: a decomposition of all of it would take the cube of what it took before.
  kernel_.Update(Rows(kSize, 0));
  EXPECT_FALSE(warm.For(kernel_).dense_at_once);
}

}  // namespace
}  // namespace fulcrum::leverage
