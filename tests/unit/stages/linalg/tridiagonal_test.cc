#include <limits>
#include <stop_token>

#include "gtest/gtest.h"
#include "stages/core/parallel.h"
#include "stages/linalg/blas.h"
#include "stages/linalg/top_eigen.h"
#include "tests/support/matrices.h"

namespace fulcrum::linalg {
namespace {

Matrix<double> SymmetricOfRank40(std::size_t size) {
  const Matrix<double> factor = testing::RandomMatrix(size, 40, 3);
  Matrix<double> matrix(size, size);
  Gemm(Transpose::kNo, Transpose::kYes, 1.0, factor.view(), factor.view(), 0.0, matrix.view());
  return matrix;
}

/// T itself, both triangles.
Matrix<double> Dense(const Tridiagonal& tridiagonal) {
  const std::size_t size = tridiagonal.diagonal.size();
  Matrix<double> dense = Matrix<double>::Zero(size, size);
  for (std::size_t i = 0; i < size; ++i) {
    dense(i, i) = tridiagonal.diagonal[i];
    if (i + 1 < size) dense(i, i + 1) = dense(i + 1, i) = tridiagonal.off_diagonal[i];
  }
  return dense;
}

TEST(Tridiagonal, ReflectorsTurnItBackIntoTheMatrix) {
  // Without a panel, with one, and with several of which the last is followed by rows that are none.
  for (const std::size_t size : {1, 2, 64, 65, 97, 203}) {
    const Matrix<double> matrix = SymmetricOfRank40(size);
    const auto tridiagonal = ReduceToTridiagonal(matrix.Clone());
    ASSERT_TRUE(tridiagonal.ok()) << tridiagonal.status();
    Matrix<double> once = Dense(*tridiagonal);  // rows are T's, so this becomes (Q T)' = T Q'
    ASSERT_TRUE(ApplyReflectors(*tridiagonal, once.view()).ok());
    Matrix<double> rows(size, size);
    for (std::size_t i = 0; i < size; ++i) {
      for (std::size_t j = 0; j < size; ++j) rows(j, i) = once(i, j);
    }
    ASSERT_TRUE(ApplyReflectors(*tridiagonal, rows.view()).ok());
    for (std::size_t i = 0; i < size; ++i) {
      for (std::size_t j = 0; j < size; ++j) ASSERT_NEAR(rows(i, j), matrix(i, j), 1e-10) << size << " rows";
    }
  }
}

TEST(Tridiagonal, ValuesThatAreNotFiniteAreAnError) {
  for (const std::size_t size : {10, 150}) {
    Matrix<double> matrix = SymmetricOfRank40(size);
    matrix(3, 4) = matrix(4, 3) = std::numeric_limits<double>::quiet_NaN();
    const auto eigen = DecomposeSymmetric(std::move(matrix));
    ASSERT_FALSE(eigen.ok());
    EXPECT_NE(std::string(eigen.status().message()).find("not finite"), std::string::npos) << eigen.status();
  }
}

/// Asks to stop at the given product.
class StoppingOperator final : public SymmetricOperator {
 public:
  StoppingOperator(ConstMatrixView matrix, std::stop_source& source, int at)
      : dense_(matrix), source_(source), at_(at) {}
  std::size_t size() const override { return dense_.size(); }
  double Trace() const override { return dense_.Trace(); }
  void Apply(ConstMatrixView x, MutableMatrixView y) const override {
    if (++products == at_) source_.request_stop();
    dense_.Apply(x, y);
  }

  mutable int products = 0;

 private:
  const DenseSymmetricOperator dense_;
  std::stop_source& source_;
  const int at_;
};

TEST(EigensolversStop, KrylovStopsAtTheProduct) {
  const Matrix<double> points = testing::RandomMatrix(400, 6, 4);
  const Matrix<double> matrix = testing::NaiveKernel({.sigma = 1}, points.view(), points.view());
  std::stop_source source;
  const StopScope scope(source.get_token());
  const StoppingOperator kernel(matrix.view(), source, 3);
  EXPECT_THROW(SolveTopEigenKrylov(kernel, {.tau = 0.9}).status().IgnoreError(), StoppedOnRequest);
  EXPECT_EQ(kernel.products, 3);
}

TEST(EigensolversStop, DenseAsksBetweenPanels) {
  const Matrix<double> matrix = SymmetricOfRank40(150);
  std::stop_source source;
  source.request_stop();
  const StopScope scope(source.get_token());
  EXPECT_THROW(SolveTopEigenDense(matrix.view(), {.tau = 0.5}).status().IgnoreError(), StoppedOnRequest);
  EXPECT_THROW(SolveTopEigenPartial(matrix.view(), {.tau = 0.5}).status().IgnoreError(), StoppedOnRequest);
}

}  // namespace
}  // namespace fulcrum::linalg
