#include "stages/linalg/ritz_verdict.h"

#include <algorithm>
#include <cmath>

#include "stages/linalg/blas.h"
#include "stages/linalg/dense_eigensolver.h"

namespace fulcrum::linalg {
namespace {

// Relative to the largest eigenvalue: below this a residual is rounding, and waiting for less is waiting forever.
constexpr double kResidualFloor = 1e-14;
// Eigenvalues nearer than this (relative to the largest) count as equal.
constexpr double kDegenerateGap = 1e-10;
// The estimate of a score's error is of first order; the margin covers what it leaves out.
constexpr double kEstimateMargin = 10;

std::vector<double> NormsOf(ConstMatrixView vectors) {
  std::vector<double> norms(vectors.rows());
  for (std::size_t i = 0; i < vectors.rows(); ++i) norms[i] = Norm(vectors.row(i));
  return norms;
}

/// For each pair the largest |u r| over the pool rows. A Ritz vector is off by about r / gap, so pair i moves the
/// score of row j, the sum of u_ij^2, by about 2 |u_ij r_ij| / gap.
std::vector<double> LargestRowProducts(ConstMatrixView vectors, ConstMatrixView residuals) {
  std::vector<double> largest(vectors.rows(), 0.0);
  for (std::size_t i = 0; i < vectors.rows(); ++i) {
    const auto u = vectors.row(i), r = residuals.row(i);
    for (std::size_t j = 0; j < u.size(); ++j) largest[i] = std::max(largest[i], std::abs(u[j] * r[j]));
  }
  return largest;
}

Matrix<double> PickRows(ConstMatrixView matrix, std::span<const std::size_t> rows) {
  Matrix<double> picked(rows.size(), matrix.cols());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(matrix.row(rows[i]).data(), matrix.cols(), picked.row(i).data());
  }
  return picked;
}

/// The pairs among the first k whose error could still change a score by more than the tolerance.
std::vector<std::size_t> UnsettledPairs(const RitzPairs& pairs, std::size_t k, double next,
                                        std::span<const double> norms, std::span<const double> row_products,
                                        double score_tolerance) {
  const double share = score_tolerance / (kEstimateMargin * static_cast<double>(k));
  std::vector<std::size_t> unsettled;
  for (std::size_t j = 0; j < k; ++j) {
    const double gap = pairs.values[j] - next;
    const bool at_floor = norms[j] <= kResidualFloor * pairs.values[0];
    // First order means nothing while the residual is not small beside the gap.
    const bool settled = gap > 0 && norms[j] <= 1e-3 * gap && 2 * row_products[j] <= share * gap;
    if (!at_floor && !settled) unsettled.push_back(j);
  }
  return unsettled;
}

std::size_t RankLowerBound(const RitzPairs& pairs, std::span<const double> norms, double target) {
  std::size_t bound = 0;
  double sum = 0;
  for (std::size_t i = 0; i < norms.size() && norms[i] <= 1e-6 * pairs.values[0] && pairs.values[i] > 0; ++i) {
    sum += pairs.values[i];
    // Later eigenvalues are no larger than this converged one, so at least so many more are needed.
    bound = i + 1 + static_cast<std::size_t>(std::max(0.0, (target - sum) / pairs.values[i]));
  }
  return bound;
}

bool RankSettled(const RitzPairs& pairs, std::size_t k, std::span<const double> norms, double target, double trace) {
  double sum_before_last = 0;
  double slack = 0;
  for (std::size_t i = 0; i < k; ++i) {
    if (i + 1 < k) sum_before_last += pairs.values[i];
    // The sum of Ritz values misses that of the eigenvalues by the squares of the residuals.
    const double gap = std::max(pairs.values[i] - (k < pairs.values.size() ? pairs.values[k] : 0.0), norms[i]);
    slack += gap > 0 ? norms[i] * norms[i] / gap : 0;
  }
  return sum_before_last + slack < target || slack <= 1e-12 * trace;
}

}  // namespace

RitzVerdict JudgeRitzPairs(const KrylovBasis& basis, const RitzPairs& pairs, const TopEigenRequest& request,
                           double trace) {
  const double target = request.tau * trace;
  RitzVerdict verdict;
  double sum = 0;
  for (double value : pairs.values) sum += std::max(value, 0.0);
  verdict.rank_found = sum >= target * (1 - 1e-12);
  verdict.rank = RankForShare(pairs.values, trace, request.tau);
  const std::size_t k = verdict.rank;
  const std::size_t inspected = std::min(pairs.values.size(), k + 1);
  const Matrix<double> residuals = basis.Residuals(pairs, inspected);
  const std::vector<double> norms = NormsOf(residuals.view());
  verdict.rank_lower_bound = RankLowerBound(pairs, norms, target);
  if (!verdict.rank_found) {
    verdict.directions = residuals.Clone();
    return verdict;
  }
  const bool has_next = k < pairs.values.size();
  const double next = has_next ? std::max(pairs.values[k], 0.0) + norms[k] : 0.0;
  const double largest = pairs.values[0];
  verdict.largest_residual = *std::max_element(norms.begin(), norms.begin() + static_cast<std::ptrdiff_t>(k));
  verdict.degenerate_cut = has_next && pairs.values[k - 1] - pairs.values[k] <= kDegenerateGap * largest;
  const Matrix<double> vectors = basis.RitzVectors(pairs, k);
  const std::vector<double> row_products = LargestRowProducts(vectors.view(), residuals.view().Rows(0, k));
  const auto unsettled = UnsettledPairs(pairs, k, next, norms, row_products, request.score_tolerance);
  const bool cut_settled = verdict.degenerate_cut && verdict.largest_residual <= 0.1 * kDegenerateGap * largest;
  verdict.converged = (unsettled.empty() || cut_settled) && RankSettled(pairs, k, norms, target, trace);
  verdict.directions = PickRows(residuals.view(), unsettled);
  return verdict;
}

}  // namespace fulcrum::linalg
