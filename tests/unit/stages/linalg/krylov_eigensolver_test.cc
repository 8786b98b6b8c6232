#include <cmath>

#include "gtest/gtest.h"
#include "stages/core/random.h"
#include "stages/linalg/top_eigen.h"
#include "tbb/global_control.h"
#include "tests/support/matrices.h"

namespace fulcrum::linalg {
namespace {

using kernel::KernelFunction;
using kernel::KernelType;

Matrix<double> RbfKernel(std::size_t rows, std::size_t dims, double sigma, std::uint64_t seed) {
  const auto points = testing::RandomMatrix(rows, dims, seed);
  return testing::NaiveKernel({.type = KernelType::kRbf, .sigma = sigma}, points.view(), points.view());
}

std::vector<double> Scores(const TopEigen& top) {
  std::vector<double> scores(top.vectors.cols(), 0.0);
  for (std::size_t i = 0; i < top.rank; ++i) {
    for (std::size_t j = 0; j < scores.size(); ++j) scores[j] += top.vectors(i, j) * top.vectors(i, j);
  }
  return scores;
}

void ExpectSameScores(const TopEigen& a, const TopEigen& b, double tolerance) {
  ASSERT_EQ(a.rank, b.rank);
  const auto scores_a = Scores(a), scores_b = Scores(b);
  for (std::size_t i = 0; i < scores_a.size(); ++i) ASSERT_NEAR(scores_a[i], scores_b[i], tolerance) << "row " << i;
}

TEST(KrylovEigensolver, EqualsDenseOverDecayingAndFlatSpectra) {
  for (double sigma : {8.0, 4.0, 2.5}) {
    for (double tau : {0.3, 0.5, 0.75}) {
      const Matrix<double> matrix = RbfKernel(600, 5, sigma, 1);
      const DenseSymmetricOperator op(matrix.view());
      const auto krylov = SolveTopEigenKrylov(op, {.tau = tau});
      const auto dense = SolveTopEigenDense(matrix.view(), {.tau = tau});
      ASSERT_TRUE(krylov.ok() && dense.ok());
      ExpectSameScores(*krylov, *dense, 1e-8);
      EXPECT_GE(krylov->trace_share, tau);
      EXPECT_LT(krylov->residual, 1e-6);
    }
  }
}

TEST(KrylovEigensolver, UsesFarFewerProductsThanRows) {
  const Matrix<double> matrix = RbfKernel(600, 5, 4, 1);
  const auto top = SolveTopEigenKrylov(DenseSymmetricOperator(matrix.view()), {.tau = 0.5});
  ASSERT_TRUE(top.ok());
  EXPECT_EQ(top->engine, "krylov");
  EXPECT_LT(top->products, 200u);
}

/// A matrix that is known by its products alone, as one that is recomputed at every product.
class ProductsOnly final : public SymmetricOperator {
 public:
  explicit ProductsOnly(ConstMatrixView matrix) : matrix_(matrix) {}
  std::size_t size() const override { return matrix_.size(); }
  double Trace() const override { return matrix_.Trace(); }
  void Apply(ConstMatrixView x, MutableMatrixView y) const override { matrix_.Apply(x, y); }

 private:
  DenseSymmetricOperator matrix_;
};

TEST(KrylovEigensolver, RestartsWithinTheMemoryItIsGiven) {
  const Matrix<double> matrix = RbfKernel(900, 6, 3, 3);
  const auto dense = SolveTopEigenDense(matrix.view(), {.tau = 0.6});
  KrylovOptions options;
  options.largest_basis = dense->rank + 60;
  options.name = "tiled";
  const auto restarted = SolveTopEigenKrylov(ProductsOnly(matrix.view()), {.tau = 0.6}, options);
  ASSERT_TRUE(dense.ok() && restarted.ok()) << restarted.status();
  EXPECT_EQ(restarted->engine, "tiled");
  EXPECT_NE(restarted->reason.find("restarted"), std::string::npos) << restarted->reason;
  EXPECT_GT(restarted->products, options.largest_basis);
  ExpectSameScores(*restarted, *dense, 1e-8);
}

TEST(KrylovEigensolver, SaysWhatToDoIfTheRankDoesNotFitIntoMemory) {
  const Matrix<double> matrix = RbfKernel(600, 20, 3, 4);
  KrylovOptions options;
  options.largest_basis = 48;
  const auto top = SolveTopEigenKrylov(ProductsOnly(matrix.view()), {.tau = 0.9}, options);
  EXPECT_EQ(top.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(top.status().message().find("allow more memory"), std::string::npos) << top.status();
}

TEST(KrylovEigensolver, HandsOverToDenseIfTheRankIsLarge) {
  const Matrix<double> matrix = RbfKernel(300, 20, 1, 2);  // nearly the identity
  const auto top = SolveTopEigenKrylov(DenseSymmetricOperator(matrix.view()), {.tau = 0.9});
  ASSERT_TRUE(top.ok());
  EXPECT_EQ(top->engine, "dense");
  EXPECT_NE(top->reason.find("handed over"), std::string::npos) << top->reason;
}

TEST(KrylovEigensolver, WarmStartGivesTheSameScoresWithFewerProducts) {
  Matrix<double> matrix = RbfKernel(800, 5, 4, 3);
  const DenseSymmetricOperator before(matrix.view());
  const auto first = SolveTopEigenKrylov(before, {.tau = 0.75});
  ASSERT_TRUE(first.ok());
  // Row 17 leaves, a copy of row 3 takes its place.
  for (std::size_t i = 0; i < 800; ++i) matrix(17, i) = matrix(i, 17) = matrix(3, i);
  matrix(17, 17) = matrix(17, 3) = matrix(3, 17) = 1;
  const DenseSymmetricOperator after(matrix.view());
  const auto cold = SolveTopEigenKrylov(after, {.tau = 0.75});
  const auto warm = SolveTopEigenKrylov(after, {.tau = 0.75, .start = first->vectors.view()});
  ASSERT_TRUE(cold.ok() && warm.ok());
  ExpectSameScores(*warm, *cold, 1e-8);
  EXPECT_LT(warm->products, cold->products);
}

TEST(KrylovEigensolver, RankOneMatrix) {
  Matrix<double> matrix(200, 200);
  for (std::size_t i = 0; i < 200; ++i) std::fill_n(matrix.row(i).data(), 200, 1.0);
  const auto top = SolveTopEigenKrylov(DenseSymmetricOperator(matrix.view()), {.tau = 1.0});
  ASSERT_TRUE(top.ok()) << top.status();
  EXPECT_EQ(top->rank, 1u);
  for (double score : Scores(*top)) EXPECT_NEAR(score, 1.0 / 200, 1e-12);
}

/// The kernel of rows that take few different values: row i is one of `points` points, in turns. Its rank is at most
/// the number of points, and its products have the rounding errors of any product.
Matrix<double> KernelOfRepeatedRows(std::size_t rows, std::size_t points, double cross_value) {
  Matrix<double> matrix(rows, rows);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < rows; ++j) matrix(i, j) = i % points == j % points ? 1.0 : cross_value;
  }
  return matrix;
}

TEST(KrylovEigensolver, RanksOfOneAndTwoTakeAFewProducts) {
  for (const std::size_t points : {1, 2}) {
    for (const double tau : {0.5, 0.7, 1.0}) {
      for (const std::size_t width : {12, 32}) {
        const Matrix<double> matrix = KernelOfRepeatedRows(600, points, std::exp(-0.7));
        KrylovOptions options;
        options.block_width = width;
        const auto top = SolveTopEigenKrylov(ProductsOnly(matrix.view()), {.tau = tau}, options);
        ASSERT_TRUE(top.ok()) << top.status();
        const std::size_t rank = points == 2 && tau > 0.7 ? 2 : 1;
        EXPECT_EQ(top->rank, rank) << points << " points, tau " << tau;
        EXPECT_LT(top->products, 4 * width) << points << " points, tau " << tau << ": " << top->reason;
        for (const double score : Scores(*top)) {
          EXPECT_NEAR(score, static_cast<double>(rank) / 600, 1e-9);
        }
      }
    }
  }
}

TEST(KrylovEigensolver, NearlyIdenticalRowsTakeAFewProducts) {
  for (const double spread : {1e-9, 1e-6, 1e-3}) {
    Matrix<double> points = testing::RandomMatrix(600, 3, 5);
    for (std::size_t i = 0; i < points.rows(); ++i) {
      for (double& value : points.row(i)) value = 1 + spread * value;
    }
    const Matrix<double> matrix =
        testing::NaiveKernel({.type = KernelType::kRbf, .sigma = 1}, points.view(), points.view());
    for (const double tau : {0.5, 0.75}) {
      const auto top = SolveTopEigenKrylov(ProductsOnly(matrix.view()), {.tau = tau});
      ASSERT_TRUE(top.ok()) << top.status();
      EXPECT_EQ(top->rank, 1u);
      EXPECT_LT(top->products, 72u) << "spread " << spread << ": " << top->reason;
      for (const double score : Scores(*top)) EXPECT_NEAR(score, 1.0 / 600, 1e-3 * std::max(spread, 1e-6));
    }
  }
}

/// The vectors of a cold answer start a run over nearly the same matrix: as many as its answer has, and more.
TEST(KrylovEigensolver, AWarmStartSucceedsInTheMemoryThatIsEnoughForAColdOne) {
  const Matrix<double> matrix = RbfKernel(900, 6, 3, 3);
  const auto dense = SolveTopEigenDense(matrix.view(), {.tau = 0.6});
  ASSERT_TRUE(dense.ok());
  for (const std::size_t wide : {dense->rank + 16, 2 * dense->rank + 32, 3 * dense->rank}) {
    for (const bool with_products : {false, true}) {
      // A slightly different matrix, whose leading vectors are no answer yet.
      const Matrix<double> before = RbfKernel(900, 6, 2.7, 3);
      const auto full = DecomposeSymmetric(Matrix<double>::CopyOf(before.view()));
      ASSERT_TRUE(full.ok());
      Matrix<double> start(wide, 900), multiplied(wide, 900);
      for (std::size_t i = 0; i < wide; ++i) std::ranges::copy(full->vectors.row(899 - i), start.row(i).begin());
      DenseSymmetricOperator(matrix.view()).Apply(start.view(), multiplied.view());
      KrylovOptions options;
      options.largest_basis = dense->rank + 60;
      const TopEigenRequest request{
          .tau = 0.6, .start = start.view(), .start_multiplied = with_products ? multiplied.view() : ConstMatrixView()};
      const auto warm = SolveTopEigenKrylov(ProductsOnly(matrix.view()), request, options);
      ASSERT_TRUE(warm.ok()) << wide << " vectors: " << warm.status();
      ExpectSameScores(*warm, *dense, 1e-8);
    }
  }
}

TEST(KrylovEigensolver, IdentityIsADegenerateCut) {
  Matrix<double> matrix = Matrix<double>::Zero(150, 150);
  for (std::size_t i = 0; i < 150; ++i) matrix(i, i) = 1;
  const auto top = SolveTopEigenKrylov(DenseSymmetricOperator(matrix.view()), {.tau = 0.5});
  ASSERT_TRUE(top.ok()) << top.status();
  EXPECT_EQ(top->rank, 75u);
  EXPECT_TRUE(top->degenerate_cut);
}

TEST(KrylovEigensolver, FindsRepeatedEigenvaluesBeyondTheBlockWidth) {
  // Twenty equal leading eigenvalues: more than a block holds, so the first invariant subspace lacks some of them.
  constexpr std::size_t kSize = 400;
  Matrix<double> matrix = Matrix<double>::Zero(kSize, kSize);
  for (std::size_t i = 0; i < kSize; ++i) matrix(i, i) = i < 20 ? 10 : 0.01;
  const auto top = SolveTopEigenKrylov(DenseSymmetricOperator(matrix.view()), {.tau = 0.9});
  ASSERT_TRUE(top.ok()) << top.status();
  EXPECT_EQ(top->rank, 19u);
  EXPECT_TRUE(top->degenerate_cut);
}

TEST(KrylovEigensolver, IsTheSameBitForBitOnAnyNumberOfThreads) {
  const Matrix<double> matrix = RbfKernel(700, 5, 4, 5);
  const DenseSymmetricOperator op(matrix.view());
  const auto with_all = SolveTopEigenKrylov(op, {.tau = 0.6});
  const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
  const auto with_one = SolveTopEigenKrylov(op, {.tau = 0.6});
  ASSERT_TRUE(with_all.ok() && with_one.ok());
  EXPECT_EQ(Scores(*with_all), Scores(*with_one));
}

}  // namespace
}  // namespace fulcrum::linalg
