#include "stages/linalg/krylov_eigensolver.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "stages/core/random.h"
#include "stages/core/status_macros.h"
#include "stages/linalg/dense_eigensolver.h"
#include "stages/linalg/krylov_basis.h"

namespace fulcrum::linalg {
namespace {

// Relative to the largest eigenvalue: below this a residual is rounding, and waiting for less is waiting forever.
constexpr double kResidualFloor = 1e-14;
// Eigenvalues nearer than this (relative to the largest) count as equal.
constexpr double kDegenerateGap = 1e-10;
// Solving the projection costs as much as several products, so it waits until the basis has grown by this factor.
constexpr double kGrowthBetweenChecks = 1.15;

/// What the projection says about the answer so far.
struct Verdict {
  bool rank_found = false;
  std::size_t rank = 0;
  bool converged = false;
  bool degenerate_cut = false;
  double largest_residual = 0;         // over the first k pairs, absolute
  std::size_t rank_lower_bound = 0;    // proven by the converged part of the spectrum
  Matrix<double> unconverged;          // residuals worth expanding with, one a column
};

std::vector<double> ColumnNorms(ConstMatrixView matrix) {
  std::vector<double> squares(matrix.cols(), 0.0);
  for (std::size_t i = 0; i < matrix.rows(); ++i) {
    for (std::size_t j = 0; j < matrix.cols(); ++j) squares[j] += matrix(i, j) * matrix(i, j);
  }
  for (double& square : squares) square = std::sqrt(square);
  return squares;
}

Matrix<double> PickColumns(ConstMatrixView matrix, std::span<const std::size_t> columns) {
  Matrix<double> picked(matrix.rows(), columns.size());
  for (std::size_t i = 0; i < matrix.rows(); ++i) {
    for (std::size_t j = 0; j < columns.size(); ++j) picked(i, j) = matrix(i, columns[j]);
  }
  return picked;
}

/// One run of the solver: a basis, a request, and the checks between expansions.
class KrylovRun {
 public:
  KrylovRun(const SymmetricOperator& matrix, const TopEigenRequest& request, const KrylovOptions& options)
      : matrix_(matrix), request_(request), options_(options), basis_(matrix), random_(request.seed) {}

  absl::StatusOr<TopEigen> Solve();

 private:
  std::size_t LargestBasis() const;
  std::size_t Start();
  std::size_t ExpandByKrylov();
  std::size_t ExpandByRandom();
  absl::StatusOr<Verdict> Check(const RitzPairs& pairs) const;
  void JudgeConvergence(const RitzPairs& pairs, std::span<const double> norms, Verdict& verdict) const;
  absl::StatusOr<TopEigen> HandOver(const std::string& why) const;
  TopEigen Answer(const RitzPairs& pairs, const Verdict& verdict) const;
  bool warm() const { return !request_.start.empty(); }

  const SymmetricOperator& matrix_;
  const TopEigenRequest& request_;
  const KrylovOptions& options_;
  KrylovBasis basis_;
  Random random_;
};

std::size_t KrylovRun::LargestBasis() const {
  if (matrix_.Dense().empty()) return matrix_.size();
  return static_cast<std::size_t>(options_.largest_basis_share * static_cast<double>(matrix_.size()));
}

std::size_t KrylovRun::ExpandByRandom() {
  Matrix<double> block(matrix_.size(), std::min(options_.block_width, matrix_.size()));
  for (std::size_t i = 0; i < block.rows(); ++i) {
    for (double& value : block.row(i)) value = random_.Normal();
  }
  return basis_.Expand(block.view());
}

std::size_t KrylovRun::Start() {
  if (!warm()) return ExpandByRandom();
  Matrix<double> start = Matrix<double>::CopyOf(request_.start);
  return basis_.Expand(start.view());
}

std::size_t KrylovRun::ExpandByKrylov() {
  Matrix<double> block = Matrix<double>::CopyOf(basis_.LastProducts());
  const std::size_t added = basis_.Expand(block.view());
  // An invariant subspace that is not enough yet: the rest of the spectrum needs a direction outside it.
  return added > 0 ? added : ExpandByRandom();
}

void KrylovRun::JudgeConvergence(const RitzPairs& pairs, std::span<const double> norms, Verdict& verdict) const {
  const std::size_t k = verdict.rank;
  const double largest = pairs.values[0];
  const bool whole_space = basis_.size() == matrix_.size();
  const bool has_next = k < pairs.values.size();
  const double next = has_next ? std::max(pairs.values[k], 0.0) + norms[k] : 0.0;
  double squared_error = 0;
  double residual_sum = 0;
  bool at_floor = true;
  for (std::size_t i = 0; i < k; ++i) {
    const double gap = pairs.values[i] - next;
    squared_error += gap > 0 ? std::pow(norms[i] / gap, 2) : 1.0;
    residual_sum += norms[i];
    verdict.largest_residual = std::max(verdict.largest_residual, norms[i]);
    at_floor = at_floor && norms[i] <= kResidualFloor * largest;
  }
  const double cut_gap = has_next ? pairs.values[k - 1] - pairs.values[k] : pairs.values[k - 1];
  verdict.degenerate_cut = has_next && cut_gap <= kDegenerateGap * largest;
  // A score changes by at most twice the angle of the subspace, to first order.
  const bool scores_settled = 2 * std::sqrt(squared_error) <= request_.score_tolerance;
  const bool cut_settled = verdict.degenerate_cut && verdict.largest_residual <= 0.1 * kDegenerateGap * largest;
  double sum_before_last = 0;
  for (std::size_t i = 0; i + 1 < k; ++i) sum_before_last += pairs.values[i];
  const double target = request_.tau * matrix_.Trace();
  const bool rank_settled = sum_before_last + residual_sum < target || residual_sum <= 1e-10 * matrix_.Trace();
  verdict.converged = whole_space || at_floor || (rank_settled && (scores_settled || cut_settled));
}

absl::StatusOr<Verdict> KrylovRun::Check(const RitzPairs& pairs) const {
  Verdict verdict;
  const double target = request_.tau * matrix_.Trace();
  double sum = 0;
  for (double value : pairs.values) sum += std::max(value, 0.0);
  verdict.rank_found = sum >= target * (1 - 1e-12);
  verdict.rank = RankForShare(pairs.values, matrix_.Trace(), request_.tau);
  const std::size_t inspected = std::min(pairs.values.size(), verdict.rank + 1);
  const Matrix<double> residuals = basis_.Residuals(pairs, inspected);
  const std::vector<double> norms = ColumnNorms(residuals.view());
  if (verdict.rank_found) JudgeConvergence(pairs, norms, verdict);

  // Later eigenvalues are no larger than a converged one, so this many are needed at the least.
  double converged_sum = 0;
  for (std::size_t i = 0; i < inspected && norms[i] <= 1e-6 * pairs.values[0] && pairs.values[i] > 0; ++i) {
    converged_sum += pairs.values[i];
    verdict.rank_lower_bound = i + 1 + static_cast<std::size_t>(std::max(0.0, (target - converged_sum) / pairs.values[i]));
  }
  std::vector<std::size_t> unconverged;
  for (std::size_t i = 0; i < inspected && unconverged.size() < 2 * options_.block_width; ++i) {
    if (norms[i] > kResidualFloor * pairs.values[0]) unconverged.push_back(i);
  }
  verdict.unconverged = PickColumns(residuals.view(), unconverged);
  return verdict;
}

absl::StatusOr<TopEigen> KrylovRun::HandOver(const std::string& why) const {
  FULCRUM_ASSIGN_OR_RETURN(TopEigen top, SolveTopEigenDense(matrix_.Dense(), request_));
  top.products = basis_.products();
  top.reason = "krylov handed over to dense: " + why;
  return top;
}

TopEigen KrylovRun::Answer(const RitzPairs& pairs, const Verdict& verdict) const {
  TopEigen top;
  top.engine = "krylov";
  top.rank = verdict.rank;
  top.values.assign(pairs.values.begin(), pairs.values.begin() + static_cast<std::ptrdiff_t>(top.rank));
  const std::size_t kept = std::min(pairs.values.size(), 2 * top.rank + options_.block_width);
  top.vectors = basis_.RitzVectors(pairs, kept);
  double sum = 0;
  for (double value : top.values) sum += value;
  top.trace_share = matrix_.Trace() > 0 ? sum / matrix_.Trace() : 1;
  top.residual = pairs.values[0] > 0 ? verdict.largest_residual / pairs.values[0] : 0;
  top.products = basis_.products();
  top.degenerate_cut = verdict.degenerate_cut;
  top.reason = absl::StrFormat("%s start, %d products, basis of %d for m = %d", warm() ? "warm" : "cold",
                               top.products, basis_.size(), matrix_.size());
  return top;
}

absl::StatusOr<TopEigen> KrylovRun::Solve() {
  const bool can_hand_over = !matrix_.Dense().empty();
  if (can_hand_over && matrix_.size() < 6 * options_.block_width) {
    return HandOver(absl::StrFormat("m = %d is small", matrix_.size()));
  }
  Start();
  std::size_t next_check = warm() ? 0 : 4 * options_.block_width;
  while (true) {
    Matrix<double> directions;
    if (basis_.size() >= next_check || basis_.size() == matrix_.size()) {
      FULCRUM_ASSIGN_OR_RETURN(RitzPairs pairs, basis_.SolveProjection());
      FULCRUM_ASSIGN_OR_RETURN(Verdict verdict, Check(pairs));
      if (verdict.converged) return Answer(pairs, verdict);
      if (can_hand_over && std::max(basis_.size(), verdict.rank_lower_bound * 3 / 2) > LargestBasis()) {
        return HandOver(absl::StrFormat("tau = %g needs a rank of at least %d of m = %d", request_.tau,
                                        std::max(verdict.rank_lower_bound, verdict.rank), matrix_.size()));
      }
      directions = std::move(verdict.unconverged);
      next_check = static_cast<std::size_t>(kGrowthBetweenChecks * static_cast<double>(basis_.size()));
    }
    if (warm() && !directions.empty()) {
      next_check = 0;
      if (basis_.Expand(directions.view()) > 0) continue;
    }
    ExpandByKrylov();
  }
}

}  // namespace

absl::StatusOr<TopEigen> SolveTopEigenKrylov(const SymmetricOperator& matrix, const TopEigenRequest& request,
                                             const KrylovOptions& options) {
  if (matrix.size() == 0) return absl::InvalidArgumentError("a kernel matrix of no rows has no eigenvalues");
  return KrylovRun(matrix, request, options).Solve();
}

}  // namespace fulcrum::linalg
