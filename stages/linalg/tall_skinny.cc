#include "stages/linalg/tall_skinny.h"

#include <cmath>
#include <vector>

#include "stages/core/parallel.h"
#include "stages/linalg/blas.h"
#include "stages/linalg/dense_eigensolver.h"

namespace fulcrum::linalg {
namespace {

constexpr std::size_t kRowsPerTask = 1024;
// A column whose part outside the span of the others is smaller than this (relative) is rounding noise.
constexpr double kDependent = 1e-12;

/// block -= basis * (basis^T block).
void RemoveComponents(ConstMatrixView basis, MutableMatrixView block) {
  if (basis.cols() == 0) return;
  Matrix<double> coefficients(basis.cols(), block.cols());
  TransposeMultiply(basis, block, coefficients.view());
  TallMultiply(-1.0, basis, coefficients.view(), 1.0, block);
}

void ScaleColumnsToUnit(MutableMatrixView block) {
  std::vector<double> squares(block.cols(), 0.0);
  for (std::size_t i = 0; i < block.rows(); ++i) {
    for (std::size_t j = 0; j < block.cols(); ++j) squares[j] += block(i, j) * block(i, j);
  }
  for (double& square : squares) square = square > 0 ? 1 / std::sqrt(square) : 0;
  for (std::size_t i = 0; i < block.rows(); ++i) {
    for (std::size_t j = 0; j < block.cols(); ++j) block(i, j) *= squares[j];
  }
}

/// Orthonormalises by the eigenvectors of the Gram matrix (SVQB, Stathopoulos and Wu 2002): all of it is
/// matrix products, and the eigenvalues tell which directions are noise. Returns the columns left.
std::size_t OrthonormalizeBlock(MutableMatrixView block) {
  ScaleColumnsToUnit(block);
  Matrix<double> gram(block.cols(), block.cols());
  TransposeMultiply(block, block, gram.view());
  auto eigen = DecomposeSymmetric(std::move(gram));
  if (!eigen.ok()) return 0;
  const double largest = eigen->values.back();
  std::vector<std::size_t> kept;
  for (std::size_t j = eigen->values.size(); j-- > 0;) {
    if (eigen->values[j] > kDependent * largest && eigen->values[j] > 0) kept.push_back(j);
  }
  Matrix<double> rotation(block.cols(), kept.size());
  for (std::size_t j = 0; j < kept.size(); ++j) {
    const double scale = 1 / std::sqrt(eigen->values[kept[j]]);
    for (std::size_t i = 0; i < block.cols(); ++i) rotation(i, j) = eigen->vectors(kept[j], i) * scale;
  }
  Matrix<double> rotated(block.rows(), kept.size());
  TallMultiply(1.0, block, rotation.view(), 0.0, rotated.view());
  CopyMatrix<double>(rotated.view(), block.Cols(0, kept.size()));
  return kept.size();
}

}  // namespace

void TransposeMultiply(ConstMatrixView a, ConstMatrixView b, MutableMatrixView out) {
  const std::size_t tasks = (a.rows() + kRowsPerTask - 1) / kRowsPerTask;
  std::vector<Matrix<double>> partial(tasks);
  ParallelForBlocks(a.rows(), kRowsPerTask, [&](std::size_t first, std::size_t count) {
    Matrix<double>& sum = partial[first / kRowsPerTask];
    sum = Matrix<double>(a.cols(), b.cols());
    Gemm(Transpose::kYes, Transpose::kNo, 1.0, a.Rows(first, count), b.Rows(first, count), 0.0, sum.view());
  });
  CopyMatrix<double>(partial[0].view(), out);
  for (std::size_t task = 1; task < tasks; ++task) {
    for (std::size_t i = 0; i < out.rows(); ++i) Axpy(1.0, partial[task].row(i), out.row(i));
  }
}

void TallMultiply(double alpha, ConstMatrixView a, ConstMatrixView b, double beta, MutableMatrixView c) {
  ParallelForBlocks(a.rows(), kRowsPerTask, [&](std::size_t first, std::size_t count) {
    Gemm(Transpose::kNo, Transpose::kNo, alpha, a.Rows(first, count), b, beta, c.Rows(first, count));
  });
}

std::size_t OrthonormalizeAgainst(ConstMatrixView basis, MutableMatrixView block) {
  // Twice is enough (Kahan, Parlett): the second pass removes what rounding left in the first.
  RemoveComponents(basis, block);
  std::size_t kept = OrthonormalizeBlock(block);
  if (kept == 0) return 0;
  RemoveComponents(basis, block.Cols(0, kept));
  return OrthonormalizeBlock(block.Cols(0, kept));
}

}  // namespace fulcrum::linalg
