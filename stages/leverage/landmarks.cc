#include "stages/leverage/landmarks.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "stages/core/matrix.h"
#include "stages/core/parallel.h"
#include "stages/core/random.h"
#include "stages/core/rows.h"
#include "stages/core/status_macros.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/leverage/leverage_scores.h"
#include "stages/linalg/blas.h"
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

namespace {

constexpr std::size_t kPickedOneOf = 20;

std::vector<std::size_t> BestOf(const std::vector<double>& scores, std::size_t count) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
      [&](std::size_t a, std::size_t b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; });
  order.resize(count);
  return order;
}

double SumAt(const std::vector<double>& scores, std::span<const std::size_t> positions) {
  double sum = 0;
  for (const std::size_t position : positions) sum += scores[position];
  return sum;
}

}  // namespace

RowList SampleRows(std::span<const RowIndex> rows, std::size_t count, std::uint64_t seed, std::uint64_t stream) {
  if (count >= rows.size()) return RowList(rows.begin(), rows.end());
  RowList sample;
  for (const std::uint64_t position : SamplePositions(rows.size(), count, seed, stream)) {
    sample.push_back(rows[position]);
  }
  return sample;
}

std::vector<std::uint64_t> SamplePositions(std::size_t size, std::size_t count, std::uint64_t seed,
                                           std::uint64_t stream) {
  Random random = Random::Fork(seed, stream);
  std::vector<std::uint64_t> positions = DrawDifferent(size, count, random);
  std::sort(positions.begin(), positions.end());
  return positions;
}

RowList SummedPart(std::span<const RowIndex> rows, std::size_t class_rows, std::size_t most, std::uint64_t first_row) {
  constexpr std::uint64_t kMix = 0x9E3779B97F4A7C15;
  std::uint64_t one_of = 1;
  while (class_rows / one_of > most) one_of *= 2;
  RowList part;
  for (const RowIndex row : rows) {
    if (((first_row + row) * kMix >> 40) % one_of == 0) part.push_back(row);
  }
  return part;
}

absl::StatusOr<double> CollectedShare(const kernel::KernelFunction& kernel, const kernel::Features& features,
                                      std::span<const RowIndex> landmarks, const KernelSubspace& span,
                                      std::span<const RowIndex> sample, double tau, bool refine) {
  const std::size_t size = sample.size();
  Matrix<double> exact(size, size), seen(size, landmarks.size()), projected(size, size);
  kernel::ComputeKernelSymmetric(kernel, features, sample, exact.view());
  kernel::ComputeKernelBlock(kernel, features, sample, landmarks, seen.view());
  span.Whiten(seen.view());
  // z(x)'z(y): the sample's kernel as the landmarks represent it.
  linalg::InnerProducts(seen.view(), seen.view(), projected.view());
  const linalg::DenseSymmetricOperator exact_kernel(exact.view());
  FULCRUM_ASSIGN_OR_RETURN(const LeverageScores of_exact, ComputeLeverage(exact_kernel, {.tau = tau}));
  // The same share of the sample's whole trace, of which the landmarks represent a part.
  const linalg::DenseSymmetricOperator seen_kernel(projected.view());
  const double seen_tau = std::min(1.0, tau * exact_kernel.Trace() / seen_kernel.Trace());
  FULCRUM_ASSIGN_OR_RETURN(LeverageScores of_seen, ComputeLeverage(seen_kernel, {.tau = seen_tau}));
  const std::size_t refined = refine ? VectorsToRefine(of_seen.eigen) : 0;
  if (refined > 0) {
    absl::StatusOr<std::vector<double>> scores = RefineInMemory(
        exact_kernel, of_seen.eigen.vectors.view().Rows(0, refined), {.trace = exact_kernel.Trace(), .tau = tau});
    // As in a class: if the refined functions depend on each other, the unrefined scores are used.
    if (!scores.ok() && !absl::IsInvalidArgument(scores.status())) return scores.status();
    if (scores.ok()) of_seen.scores = *std::move(scores);
  }
  const std::size_t count = std::max<std::size_t>(1, size / kPickedOneOf);
  return SumAt(of_exact.scores, BestOf(of_seen.scores, count)) / SumAt(of_exact.scores, BestOf(of_exact.scores, count));
}

namespace {

constexpr std::size_t kFewestLandmarks = 2000;
constexpr std::size_t kMostLandmarks = 4000;
// Multiplications of the first pass, n_s^2 a row, that are worth spending on a class.
constexpr double kGramWork = 2e12;
// Of the landmarks that a class should have; below it they are drawn anew.
constexpr double kLeastShareOfClass = 0.8;

}  // namespace

std::size_t DefaultLandmarks(std::size_t rows) {
  const auto affordable =
      static_cast<std::size_t>(std::sqrt(kGramWork / static_cast<double>(std::max<std::size_t>(rows, 1))));
  return std::min(rows, std::clamp(affordable, kFewestLandmarks, kMostLandmarks));
}

std::size_t LandmarkBytes(std::size_t landmarks, std::size_t dims) {
  // The factor, the sum, and the projected sum with its transpose's pages; then a block of tiles, and the features.
  return 3 * sizeof(double) * landmarks * landmarks + sizeof(float) * landmarks * (4096 + dims) +
         (std::size_t{16} << 20);
}

bool CoverTooFew(std::span<const RowIndex> rows, std::span<const RowIndex> landmarks, std::size_t wanted) {
  // Landmarks from all over a class reach nearly to its last row. Where half of the rows lie behind them, the class has
  // grown to twice what they were drawn from.
  const auto behind = std::ranges::upper_bound(rows, landmarks.back());
  if (static_cast<std::size_t>(behind - rows.begin()) < rows.size() / 2) return true;
  const std::size_t of_class = landmarks.size() - RowsOnlyIn(landmarks, rows).size();
  return static_cast<double>(of_class) < kLeastShareOfClass * static_cast<double>(wanted);
}

}  // namespace fulcrum::leverage
