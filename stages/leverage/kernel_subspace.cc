#include "stages/leverage/kernel_subspace.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/linalg/blas.h"
#include "stages/linalg/dense_eigensolver.h"
#include "stages/linalg/krylov_eigensolver.h"
#include "stages/linalg/lapack.h"
#include "stages/linalg/top_eigen.h"

namespace fulcrum::leverage {
namespace {

// Added to the diagonal of the landmarks' kernel, relative to its mean. Directions with smaller eigenvalues than this
// cannot be told from the rounding of float32 sums, and whitening would amplify them.
constexpr double kRidge = 1e-3;
// Scores in float32 are no more accurate.
constexpr double kScoreTolerance = 1e-6;
constexpr std::size_t kRowsPerTask = 128;

void TransposeInPlace(MutableMatrixView matrix) {
  for (std::size_t i = 0; i < matrix.rows(); ++i) {
    for (std::size_t j = 0; j < i; ++j) std::swap(matrix(i, j), matrix(j, i));
  }
}

void MirrorLower(MutableMatrixView matrix) {
  for (std::size_t i = 0; i < matrix.rows(); ++i) {
    for (std::size_t j = 0; j < i; ++j) matrix(j, i) = matrix(i, j);
  }
}

}  // namespace

absl::StatusOr<KernelSubspace> KernelSubspace::OfLandmarks(const kernel::KernelFunction& kernel,
                                                           const kernel::Features& features,
                                                           std::span<const RowIndex> landmarks) {
  Matrix<double> matrix(landmarks.size(), landmarks.size());
  kernel::ComputeKernelSymmetric(kernel, features, landmarks, matrix.view());
  double trace = 0;
  for (std::size_t i = 0; i < matrix.rows(); ++i) trace += matrix(i, i);
  const double ridge = kRidge * trace / static_cast<double>(matrix.rows());
  for (std::size_t i = 0; i < matrix.rows(); ++i) matrix(i, i) += ridge;
  return OfInnerProducts(std::move(matrix));
}

absl::StatusOr<KernelSubspace> KernelSubspace::OfInnerProducts(Matrix<double> products) {
  KernelSubspace span;
  FULCRUM_ASSIGN_OR_RETURN(span.lower_, linalg::FactorCholesky(std::move(products)));
  return span;
}

void KernelSubspace::Whiten(MutableMatrixView rows) const {
  ParallelForBlocks(rows.rows(), kRowsPerTask, [&](std::size_t first, std::size_t count) {
    linalg::SolveLowerForRows(lower_.view(), rows.Rows(first, count));
  });
}

std::vector<double> KernelSubspace::OwnParts() const {
  std::vector<double> parts(size());
  ParallelForBlocks(size(), kRowsPerTask, [&](std::size_t first, std::size_t count) {
    // (B^-1)_ss = |L^-1 e_s|^2, and the elements before s in L^-1 e_s are zero.
    const std::size_t rest = size() - first;
    Matrix<double> units = Matrix<double>::Zero(count, rest);
    for (std::size_t i = 0; i < count; ++i) units(i, i) = 1;
    linalg::SolveLowerForRows(lower_.view().Block(first, first, rest, rest), units.view());
    for (std::size_t i = 0; i < count; ++i) parts[first + i] = 1 / linalg::Dot(units.row(i), units.row(i));
  });
  return parts;
}

Matrix<double> KernelSubspace::Project(Matrix<double> gram) const {
  Whiten(gram.view());
  TransposeInPlace(gram.view());
  // The result is symmetric: only the part of each row below the diagonal is computed, from that part of the factor.
  ParallelForBlocks(gram.rows(), kRowsPerTask, [&](std::size_t first, std::size_t count) {
    const std::size_t end = first + count;
    linalg::SolveLowerForRows(lower_.view().Block(0, 0, end, end), gram.view().Block(first, 0, count, end));
  });
  MirrorLower(gram.view());
  return gram;
}

absl::StatusOr<SpanSolution> KernelSubspace::Solve(Matrix<double> gram, double trace, double tau, std::uint64_t seed,
                                                   ConstMatrixView start) const {
  const Matrix<double> projected = Project(std::move(gram));
  // With the matrix at hand the solver can change to the dense one, as it must if the eigenvalues are nearly equal: k
  // is a large share of n then, and a basis for it costs more than all eigenvectors.
  const linalg::DenseSymmetricOperator span(projected.view());
  SpanSolution solution;
  solution.captured_share = span.Trace() / trace;
  linalg::TopEigenRequest request;
  request.tau = solution.captured_share >= tau ? tau / solution.captured_share : tau;
  request.seed = seed;
  request.score_tolerance = kScoreTolerance;
  request.start = start;
  request.vectors = kMostRefinedVectors;
  linalg::KrylovOptions options;
  options.name = "landmark";
  FULCRUM_ASSIGN_OR_RETURN(solution.eigen, linalg::SolveTopEigenKrylov(span, request, options));
  solution.eigen.trace_share *= solution.captured_share;
  solution.projection = Projection(solution.eigen, solution.eigen.rank);
  return solution;
}

Matrix<float> KernelSubspace::Projection(const linalg::TopEigen& eigen, std::size_t count) const {
  Matrix<double> rows = Matrix<double>::CopyOf(eigen.vectors.view().Rows(0, count));
  ParallelForBlocks(count, kRowsPerTask, [&](std::size_t first, std::size_t some) {
    linalg::SolveLowerTransposedForRows(lower_.view(), rows.view().Rows(first, some));
  });
  Matrix<float> projection(size(), count);
  for (std::size_t j = 0; j < count; ++j) {
    const double length = std::sqrt(linalg::RitzValue(eigen, j));
    for (std::size_t i = 0; i < size(); ++i) projection(i, j) = static_cast<float>(rows(j, i) / length);
  }
  return projection;
}

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
