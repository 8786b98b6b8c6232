#include "stages/linalg/krylov_basis.h"

#include <algorithm>

#include "stages/core/status_macros.h"
#include "stages/linalg/dense_eigensolver.h"
#include "stages/linalg/vector_block.h"

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

void KrylovBasis::Reserve(std::size_t count) {
  if (count <= vectors_.rows()) return;
  // A warm start ends within this much of its first size: growing twice would copy the basis for nothing.
  const std::size_t capacity = std::max(count, std::min(2 * count + 64, matrix_.size()));
  vectors_ = Grown(vectors_, capacity, matrix_.size(), size_, matrix_.size());
  multiplied_ = Grown(multiplied_, capacity, matrix_.size(), size_, matrix_.size());
  projection_ = Grown(projection_, capacity, capacity, size_, size_);
}

std::size_t KrylovBasis::Expand(MutableMatrixView block) {
  const std::size_t room = matrix_.size() - size_;
  const std::size_t added = std::min(OrthonormalizeAgainst(vectors(), block), room);
  Matrix<double> block_multiplied(added, matrix_.size());
  if (added > 0) matrix_.Apply(block.Rows(0, added), block_multiplied.view());
  Append(block.Rows(0, added), block_multiplied.view());
  products_ += added;
  return added;
}

std::size_t KrylovBasis::Begin(MutableMatrixView block, MutableMatrixView block_multiplied) {
  const std::size_t added = OrthonormalizeTogether(block, block_multiplied);
  Append(block.Rows(0, added), block_multiplied.Rows(0, added));
  return added;
}

void KrylovBasis::Append(ConstMatrixView block, ConstMatrixView block_multiplied) {
  const std::size_t added = block.rows();
  last_added_ = added;
  if (added == 0) return;
  Reserve(size_ + added);
  CopyMatrix<double>(block, vectors_.view().Rows(size_, added));
  CopyMatrix<double>(block_multiplied, multiplied_.view().Rows(size_, added));
  const std::size_t old_size = size_;
  size_ += added;

  Matrix<double> coupling(added, size_);
  InnerProducts(block_multiplied, vectors(), coupling.view());
  for (std::size_t i = 0; i < added; ++i) {
    for (std::size_t j = 0; j < size_; ++j) {
      projection_(old_size + i, j) = coupling(i, j);
      projection_(j, old_size + i) = coupling(i, j);
    }
  }
}

ConstMatrixView KrylovBasis::LastProducts() const {
  return multiplied_.view().Rows(size_ - last_added_, last_added_);
}

absl::StatusOr<RitzPairs> KrylovBasis::SolveProjection() const {
  FULCRUM_ASSIGN_OR_RETURN(FullEigen eigen,
                           DecomposeSymmetric(Matrix<double>::CopyOf(projection_.view().Block(0, 0, size_, size_))));
  RitzPairs pairs;
  pairs.values.assign(eigen.values.rbegin(), eigen.values.rend());
  pairs.coefficients = Matrix<double>(size_, size_);
  for (std::size_t i = 0; i < size_; ++i) {
    std::copy_n(eigen.vectors.row(size_ - 1 - i).data(), size_, pairs.coefficients.row(i).data());
  }
  return pairs;
}

Matrix<double> KrylovBasis::RitzVectors(const RitzPairs& pairs, std::size_t count) const {
  Matrix<double> ritz(count, matrix_.size());
  Combine(1.0, pairs.coefficients.view().Rows(0, count), vectors(), 0.0, ritz.view());
  return ritz;
}

Matrix<double> KrylovBasis::RitzVectorsMultiplied(const RitzPairs& pairs, std::size_t count) const {
  Matrix<double> ritz(count, matrix_.size());
  Combine(1.0, pairs.coefficients.view().Rows(0, count), multiplied(), 0.0, ritz.view());
  return ritz;
}

Matrix<double> KrylovBasis::Residuals(const RitzPairs& pairs, std::size_t count) const {
  Matrix<double> scaled = Matrix<double>::CopyOf(pairs.coefficients.view().Rows(0, count));
  for (std::size_t i = 0; i < count; ++i) {
    for (double& value : scaled.row(i)) value *= pairs.values[i];
  }
  Matrix<double> residuals = RitzVectorsMultiplied(pairs, count);
  Combine(-1.0, scaled.view(), vectors(), 1.0, residuals.view());
  return residuals;
}

}  // namespace fulcrum::linalg
