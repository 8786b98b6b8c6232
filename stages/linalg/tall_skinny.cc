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

/// The rotation R that makes block * R orthonormal, from the eigenvectors of the Gram matrix (SVQB, Stathopoulos and
/// Wu 2002): all of it is matrix products, and the eigenvalues tell which directions are noise and are left out.
Matrix<double> OrthonormalizingRotation(ConstMatrixView block) {
  const std::size_t width = block.cols();
  Matrix<double> gram(width, width);
  TransposeMultiply(block, block, gram.view());
  std::vector<double> scale(width);
  for (std::size_t i = 0; i < width; ++i) scale[i] = gram(i, i) > 0 ? 1 / std::sqrt(gram(i, i)) : 0;
  for (std::size_t i = 0; i < width; ++i) {
    for (std::size_t j = 0; j < width; ++j) gram(i, j) *= scale[i] * scale[j];
  }
  const auto eigen = DecomposeSymmetric(std::move(gram));
  if (!eigen.ok()) return {};
  std::vector<std::size_t> kept;
  for (std::size_t j = width; j-- > 0;) {
    if (eigen->values[j] > kDependent * eigen->values.back()) kept.push_back(j);
  }
  Matrix<double> rotation(width, kept.size());
  for (std::size_t j = 0; j < kept.size(); ++j) {
    const double length = std::sqrt(eigen->values[kept[j]]);
    for (std::size_t i = 0; i < width; ++i) rotation(i, j) = scale[i] * eigen->vectors(kept[j], i) / length;
  }
  return rotation;
}

void Rotate(ConstMatrixView rotation, MutableMatrixView block) {
  Matrix<double> rotated(block.rows(), rotation.cols());
  TallMultiply(1.0, block, rotation, 0.0, rotated.view());
  CopyMatrix<double>(rotated.view(), block.Cols(0, rotation.cols()));
}

std::size_t OrthonormalizeBlock(MutableMatrixView block) {
  const Matrix<double> rotation = OrthonormalizingRotation(block);
  Rotate(rotation.view(), block);
  return rotation.cols();
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

std::size_t OrthonormalizeTogether(MutableMatrixView block, MutableMatrixView companion) {
  std::size_t kept = block.cols();
  for (int pass = 0; pass < 2 && kept > 0; ++pass) {
    const Matrix<double> rotation = OrthonormalizingRotation(block.Cols(0, kept));
    Rotate(rotation.view(), block.Cols(0, kept));
    Rotate(rotation.view(), companion.Cols(0, kept));
    kept = rotation.cols();
  }
  return kept;
}

}  // namespace fulcrum::linalg
