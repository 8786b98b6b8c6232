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

KrylovBasis::KrylovBasis(const SymmetricOperator& matrix, std::size_t largest) : matrix_(matrix), largest_(largest) {}

void KrylovBasis::Reserve(std::size_t count) {
  if (count <= vectors_.rows()) return;
  // A warm start ends within this much of its first size: growing twice would copy the basis for nothing.
  const std::size_t wanted = largest_ > 0 ? largest_ : 2 * count + 64;
  const std::size_t capacity = std::max(count, std::min(wanted, matrix_.size()));
  vectors_ = Grown(vectors_, capacity, matrix_.size(), size_, matrix_.size());
  multiplied_ = Grown(multiplied_, capacity, matrix_.size(), size_, matrix_.size());
  projection_ = Grown(projection_, capacity, capacity, size_, size_);
}

std::size_t KrylovBasis::Expand(MutableMatrixView block) {
  const std::size_t room = matrix_.size() - size_;
  const std::size_t added = std::min(OrthonormalizeAgainst(vectors(), block), room);
  Reserve(size_ + added);
  if (added > 0) {
    CopyMatrix<double>(block.Rows(0, added), vectors_.view().Rows(size_, added));
    matrix_.Apply(block.Rows(0, added), multiplied_.view().Rows(size_, added));
  }
  Accept(added);
  products_ += added;
  return added;
}

std::size_t KrylovBasis::Begin(ConstMatrixView block, ConstMatrixView block_multiplied) {
  Reserve(block.rows());
  const std::size_t added = OrthonormalizeTogether(block, block_multiplied, vectors_.view().Rows(0, block.rows()),
                                                   multiplied_.view().Rows(0, block.rows()));
  Accept(added);
  return added;
}

std::size_t KrylovBasis::Restart(const RitzPairs& pairs, std::size_t kept, MutableMatrixView next) {
  const std::size_t independent = OrthonormalizeAgainst(vectors(), next);
  CombineInPlace(pairs.coefficients.view().Rows(0, kept), vectors_.view().Rows(0, size_));
  CombineInPlace(pairs.coefficients.view().Rows(0, kept), multiplied_.view().Rows(0, size_));
  for (std::size_t i = 0; i < kept; ++i) {
    for (std::size_t j = 0; j < kept; ++j) projection_(i, j) = i == j ? pairs.values[i] : 0.0;
  }
  size_ = kept;
  return Expand(next.Rows(0, independent));
}

void KrylovBasis::Accept(std::size_t added) {
  last_added_ = added;
  if (added == 0) return;
  const std::size_t old_size = size_;
  size_ += added;
  Matrix<double> coupling(added, size_);
  InnerProducts(LastProducts(), vectors(), coupling.view());
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

void KrylovBasis::WriteRitzVectors(const RitzPairs& pairs, std::size_t first, MutableMatrixView out) const {
  Combine(1.0, pairs.coefficients.view().Rows(first, out.rows()), vectors(), 0.0, out);
}

void KrylovBasis::WriteRitzVectorsMultiplied(const RitzPairs& pairs, std::size_t first, MutableMatrixView out) const {
  Combine(1.0, pairs.coefficients.view().Rows(first, out.rows()), multiplied(), 0.0, out);
}

}  // namespace fulcrum::linalg
