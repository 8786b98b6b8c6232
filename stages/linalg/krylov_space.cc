#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "stages/core/status_macros.h"
#include "stages/linalg/blas.h"
#include "stages/linalg/top_eigen.h"

namespace fulcrum::linalg {
namespace {

// Rounding error of a product with A, relative to its largest eigenvalue.
constexpr double kProductNoise = 1e-14;

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
  return ExpandAbove(0, block);
}

std::size_t KrylovBasis::ExpandByProducts(MutableMatrixView block) {
  return ExpandAbove(kProductNoise * longest_product_, block);
}

std::size_t KrylovBasis::ExpandAbove(double noise, MutableMatrixView block) {
  const std::size_t room = matrix_.size() - size_;
  const std::size_t added = std::min(OrthonormalizeAgainst(vectors(), block, noise), room);
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
  const std::size_t independent = OrthonormalizeAgainst(vectors(), next, kProductNoise * longest_product_);
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
  for (std::size_t i = 0; i < added; ++i) longest_product_ = std::max(longest_product_, Norm(LastProducts().row(i)));
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

double KrylovBasis::CapturedTrace() const {
  double trace = 0;
  for (std::size_t i = 0; i < size_; ++i) trace += projection_(i, i);
  return trace;
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

namespace {

// Relative to the largest eigenvalue: below this a residual is rounding, and waiting for less is waiting forever.
constexpr double kResidualFloor = 1e-14;
// Eigenvalues nearer than this (relative to the largest) count as equal.
constexpr double kDegenerateGap = 1e-10;
// MKL multiplies four vectors at a time: a block is filled up to the next multiple, with pairs just beyond the rank,
// which cost nothing then and separate the cut sooner.
constexpr std::size_t kVectorsTogether = 4;

/// A u - theta u, one a row.
Matrix<double> Residuals(const RitzPairs& pairs, ConstMatrixView vectors, ConstMatrixView multiplied) {
  Matrix<double> residuals(vectors.rows(), vectors.cols());
  for (std::size_t i = 0; i < vectors.rows(); ++i) {
    const auto u = vectors.row(i), product = multiplied.row(i);
    const auto residual = residuals.row(i);
    for (std::size_t j = 0; j < u.size(); ++j) residual[j] = product[j] - pairs.values[i] * u[j];
  }
  return residuals;
}

std::vector<double> NormsOf(ConstMatrixView vectors) {
  std::vector<double> norms(vectors.rows());
  for (std::size_t i = 0; i < vectors.rows(); ++i) norms[i] = Norm(vectors.row(i));
  return norms;
}

/// The largest eigenvalue that the basis may not know of. A residual is orthogonal to the basis, so a Ritz vector errs
/// towards what lies outside it; towards a pair beyond the rank that is itself nearly settled it errs in second order
/// only. The first pair beyond the rank that is not, bounds what is left.
double LargestUnresolved(const RitzPairs& pairs, std::size_t k, std::span<const double> norms) {
  for (std::size_t i = k; i < norms.size(); ++i) {
    const bool resolved = norms[i] <= 0.1 * (pairs.values[k - 1] - pairs.values[i]);
    if (!resolved || i + 1 == norms.size()) return std::max(pairs.values[i], 0.0) + norms[i];
  }
  return 0;
}

/// Errors of the scores to first order: a Ritz vector u is off by about r / gap, which moves the score of row j, the
/// sum of u_ij^2 over the pairs, by about 2 |u_ij r_ij| / gap each. The gap is the smallest there can be and no two
/// errors cancel, so the estimate errs upwards: on MNIST by a factor of two to three.
struct ScoreErrors {
  double largest = 0;            ///< over the rows, all pairs together
  std::vector<double> of_pairs;  ///< each pair's own share, the largest over the rows
};

ScoreErrors EstimateScoreErrors(const RitzPairs& pairs, double unresolved, ConstMatrixView vectors,
                                ConstMatrixView residuals) {
  ScoreErrors errors;
  std::vector<double> of_rows(vectors.cols(), 0.0);
  for (std::size_t i = 0; i < vectors.rows(); ++i) {
    const double factor = 2 / (pairs.values[i] - unresolved);
    const auto u = vectors.row(i), r = residuals.row(i);
    double of_pair = 0;
    for (std::size_t j = 0; j < u.size(); ++j) {
      const double error = factor * std::abs(u[j] * r[j]);
      of_rows[j] += error;
      of_pair = std::max(of_pair, error);
    }
    errors.of_pairs.push_back(of_pair);
  }
  errors.largest = *std::max_element(of_rows.begin(), of_rows.end());
  return errors;
}

Matrix<double> PickRows(ConstMatrixView matrix, std::span<const std::size_t> rows) {
  Matrix<double> picked(rows.size(), matrix.cols());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(matrix.row(rows[i]).data(), matrix.cols(), picked.row(i).data());
  }
  return picked;
}

/// Empty while a residual is not small compared to its gap, because the first-order estimate is not valid then.
std::optional<ScoreErrors> FirstOrderErrors(const RitzPairs& pairs, std::size_t k, std::span<const double> norms,
                                            ConstMatrixView vectors, ConstMatrixView residuals) {
  const double unresolved = LargestUnresolved(pairs, k, norms);
  for (std::size_t i = 0; i < k; ++i) {
    if (norms[i] > 1e-3 * (pairs.values[i] - unresolved)) return std::nullopt;
  }
  return EstimateScoreErrors(pairs, unresolved, vectors.Rows(0, k), residuals.Rows(0, k));
}

/// Of the first k pairs those that still move a score: the others, together, may stay as they are. The large
/// eigenvalues settle first, and multiplying their residuals again would buy nothing.
std::vector<std::size_t> UnsettledPairs(const ScoreErrors& errors, double score_tolerance) {
  std::vector<std::size_t> pairs(errors.of_pairs.size());
  std::iota(pairs.begin(), pairs.end(), std::size_t{0});
  std::sort(pairs.begin(), pairs.end(),
            [&](std::size_t a, std::size_t b) { return errors.of_pairs[a] > errors.of_pairs[b]; });
  double left_out = 0;
  while (!pairs.empty()) {
    left_out += errors.of_pairs[pairs.back()];
    if (left_out > score_tolerance / 2) break;
    pairs.pop_back();
  }
  return pairs;
}

/// The pairs whose residuals the basis grows by next, filled up with those that follow the rank.
std::vector<std::size_t> PairsToImprove(const RitzPairs& pairs, std::size_t k, std::span<const double> norms,
                                        const std::optional<ScoreErrors>& errors, double score_tolerance) {
  std::vector<std::size_t> chosen;
  if (errors) chosen = UnsettledPairs(*errors, score_tolerance);
  for (std::size_t i = 0; i < k && !errors; ++i) {
    if (norms[i] > kResidualFloor * pairs.values[0]) chosen.push_back(i);
  }
  for (std::size_t i = k; chosen.size() % kVectorsTogether != 0 && i < norms.size(); ++i) chosen.push_back(i);
  return chosen;
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
  const std::size_t inspected = std::min(pairs.values.size(), k + 2 * kVectorsTogether);
  verdict.vectors = Matrix<double>(inspected, basis.dimension());
  verdict.multiplied = Matrix<double>(inspected, basis.dimension());
  basis.WriteRitzVectors(pairs, 0, verdict.vectors.view());
  basis.WriteRitzVectorsMultiplied(pairs, 0, verdict.multiplied.view());
  const Matrix<double> residuals = Residuals(pairs, verdict.vectors.view(), verdict.multiplied.view());
  const std::vector<double> norms = NormsOf(residuals.view());
  verdict.rank_lower_bound = RankLowerBound(pairs, norms, target);
  if (!verdict.rank_found) {
    verdict.directions = residuals.Clone();
    return verdict;
  }
  const bool has_next = k < pairs.values.size();
  const double largest = pairs.values[0];
  verdict.largest_residual = *std::max_element(norms.begin(), norms.begin() + static_cast<std::ptrdiff_t>(k));
  verdict.degenerate_cut = has_next && pairs.values[k - 1] - pairs.values[k] <= kDegenerateGap * largest;
  const bool at_floor = verdict.largest_residual <= kResidualFloor * largest;
  const bool cut_settled = verdict.degenerate_cut && verdict.largest_residual <= 0.1 * kDegenerateGap * largest;
  const auto errors = FirstOrderErrors(pairs, k, norms, verdict.vectors.view(), residuals.view());
  const bool scores_settled = errors && errors->largest <= request.score_tolerance;
  verdict.converged = (at_floor || cut_settled || scores_settled) && RankSettled(pairs, k, norms, target, trace);
  verdict.directions = PickRows(residuals.view(), PairsToImprove(pairs, k, norms, errors, request.score_tolerance));
  return verdict;
}

double RitzValue(const TopEigen& top, std::size_t index) {
  if (index < top.values.size() || top.multiplied.empty()) return top.values[index];
  return Dot(top.vectors.row(index), top.multiplied.row(index));
}

namespace {

constexpr std::size_t kRowsPerTask = 256;

double TraceOf(ConstMatrixView matrix) {
  double trace = 0;
  for (std::size_t i = 0; i < matrix.rows(); ++i) trace += matrix(i, i);
  return trace;
}

}  // namespace

DenseSymmetricOperator::DenseSymmetricOperator(ConstMatrixView matrix) : matrix_(matrix), trace_(TraceOf(matrix)) {}

void DenseSymmetricOperator::Apply(ConstMatrixView x, MutableMatrixView y) const {
  ParallelForBlocks(size(), kRowsPerTask, [&](std::size_t first, std::size_t count) {
    Gemm(Transpose::kNo, Transpose::kYes, 1.0, x, matrix_.Rows(first, count), 0.0, y.Cols(first, count));
  });
}

}  // namespace fulcrum::linalg
