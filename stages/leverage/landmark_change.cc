#include "stages/leverage/landmark_change.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "stages/core/status_macros.h"
#include "stages/linalg/blas.h"
#include "stages/linalg/dense_eigensolver.h"

namespace fulcrum::leverage {

Matrix<double> ScaledVectors(const linalg::TopEigen& eigen) {
  Matrix<double> scaled = Matrix<double>::CopyOf(eigen.vectors.view().Rows(0, eigen.rank));
  for (std::size_t j = 0; j < eigen.rank; ++j) {
    const double length = std::sqrt(eigen.values[j]);
    for (double& value : scaled.row(j)) value /= length;
  }
  return scaled;
}

absl::StatusOr<double> LargestChange(ConstMatrixView now, ConstMatrixView before) {
  // With C the rows of both and C C' = V S V', the change C' D C (D is 1 for rows of now and -1 for those before) has
  // the eigenvalues of S^1/2 V' D V S^1/2, however nearly the rows depend on each other.
  const std::size_t size = now.rows() + before.rows();
  Matrix<double> both(size, now.cols()), gram(size, size);
  CopyMatrix<double>(now, both.view().Rows(0, now.rows()));
  CopyMatrix<double>(before, both.view().Rows(now.rows(), before.rows()));
  linalg::InnerProducts(both.view(), both.view(), gram.view());
  FULCRUM_ASSIGN_OR_RETURN(linalg::FullEigen eigen, linalg::DecomposeSymmetric(std::move(gram)));
  Matrix<double> roots(size, size), signed_roots(size, size), change(size, size);
  for (std::size_t i = 0; i < size; ++i) {
    const double root = std::sqrt(std::max(eigen.values[i], 0.0));
    for (std::size_t j = 0; j < size; ++j) {
      roots(i, j) = root * eigen.vectors(i, j);
      signed_roots(i, j) = j < now.rows() ? roots(i, j) : -roots(i, j);
    }
  }
  linalg::Gemm(linalg::Transpose::kNo, linalg::Transpose::kYes, 1.0, std::as_const(roots).view(),
               std::as_const(signed_roots).view(), 0.0, change.view());
  FULCRUM_ASSIGN_OR_RETURN(const linalg::FullEigen moved, linalg::DecomposeSymmetric(std::move(change)));
  return std::max(std::abs(moved.values.front()), std::abs(moved.values.back()));
}

}  // namespace fulcrum::leverage
