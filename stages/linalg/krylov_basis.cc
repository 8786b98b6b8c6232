#include "stages/linalg/krylov_basis.h"

#include <algorithm>

#include "stages/core/status_macros.h"
#include "stages/linalg/dense_eigensolver.h"
#include "stages/linalg/tall_skinny.h"

namespace fulcrum::linalg {
namespace {

Matrix<double> Grown(const Matrix<double>& old, std::size_t rows, std::size_t cols, std::size_t used_rows,
                     std::size_t used_cols) {
  Matrix<double> grown(rows, cols);
  if (used_rows > 0 && used_cols > 0) {
    CopyMatrix<double>(old.view().Block(0, 0, used_rows, used_cols), grown.view().Block(0, 0, used_rows, used_cols));
  }
  return grown;
}

}  // namespace

KrylovBasis::KrylovBasis(const SymmetricOperator& matrix) : matrix_(matrix) {}

void KrylovBasis::Reserve(std::size_t columns) {
  if (columns <= vectors_.cols()) return;
  const std::size_t capacity = std::max(columns, std::min(2 * vectors_.cols() + 64, matrix_.size()));
  vectors_ = Grown(vectors_, matrix_.size(), capacity, matrix_.size(), size_);
  multiplied_ = Grown(multiplied_, matrix_.size(), capacity, matrix_.size(), size_);
  projection_ = Grown(projection_, capacity, capacity, size_, size_);
}

std::size_t KrylovBasis::Expand(MutableMatrixView block) {
  const std::size_t room = matrix_.size() - size_;
  const std::size_t added = std::min(OrthonormalizeAgainst(vectors(), block), room);
  Matrix<double> block_multiplied(matrix_.size(), added);
  if (added > 0) matrix_.Apply(block.Cols(0, added), block_multiplied.view());
  Append(block.Cols(0, added), block_multiplied.view());
  products_ += added;
  return added;
}

std::size_t KrylovBasis::Begin(MutableMatrixView block, MutableMatrixView block_multiplied) {
  const std::size_t added = OrthonormalizeTogether(block, block_multiplied);
  Append(block.Cols(0, added), block_multiplied.Cols(0, added));
  return added;
}

void KrylovBasis::Append(ConstMatrixView block, ConstMatrixView block_multiplied) {
  const std::size_t added = block.cols();
  last_added_ = added;
  if (added == 0) return;
  Reserve(size_ + added);
  CopyMatrix<double>(block, vectors_.view().Cols(size_, added));
  CopyMatrix<double>(block_multiplied, multiplied_.view().Cols(size_, added));
  const std::size_t old_size = size_;
  size_ += added;

  Matrix<double> coupling(size_, added);
  TransposeMultiply(vectors(), block_multiplied, coupling.view());
  for (std::size_t i = 0; i < size_; ++i) {
    for (std::size_t j = 0; j < added; ++j) {
      projection_(i, old_size + j) = coupling(i, j);
      projection_(old_size + j, i) = coupling(i, j);
    }
  }
}

ConstMatrixView KrylovBasis::LastProducts() const {
  return multiplied_.view().Cols(size_ - last_added_, last_added_);
}

absl::StatusOr<RitzPairs> KrylovBasis::SolveProjection() const {
  FULCRUM_ASSIGN_OR_RETURN(FullEigen eigen,
                           DecomposeSymmetric(Matrix<double>::CopyOf(projection_.view().Block(0, 0, size_, size_))));
  RitzPairs pairs;
  pairs.values.assign(eigen.values.rbegin(), eigen.values.rend());
  pairs.coefficients = Matrix<double>(size_, size_);
  for (std::size_t j = 0; j < size_; ++j) {
    const auto vector = eigen.vectors.row(size_ - 1 - j);
    for (std::size_t i = 0; i < size_; ++i) pairs.coefficients(i, j) = vector[i];
  }
  return pairs;
}

Matrix<double> KrylovBasis::RitzVectors(const RitzPairs& pairs, std::size_t count) const {
  Matrix<double> ritz(matrix_.size(), count);
  TallMultiply(1.0, vectors(), pairs.coefficients.view().Cols(0, count), 0.0, ritz.view());
  return ritz;
}

Matrix<double> KrylovBasis::RitzVectorsMultiplied(const RitzPairs& pairs, std::size_t count) const {
  Matrix<double> ritz(matrix_.size(), count);
  TallMultiply(1.0, multiplied(), pairs.coefficients.view().Cols(0, count), 0.0, ritz.view());
  return ritz;
}

Matrix<double> KrylovBasis::Residuals(const RitzPairs& pairs, std::size_t count) const {
  Matrix<double> scaled = Matrix<double>::CopyOf(pairs.coefficients.view().Cols(0, count));
  for (std::size_t i = 0; i < size_; ++i) {
    for (std::size_t j = 0; j < count; ++j) scaled(i, j) *= pairs.values[j];
  }
  Matrix<double> residuals = RitzVectorsMultiplied(pairs, count);
  TallMultiply(-1.0, vectors(), scaled.view(), 1.0, residuals.view());
  return residuals;
}

}  // namespace fulcrum::linalg
