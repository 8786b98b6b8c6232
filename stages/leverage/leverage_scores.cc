#include "stages/leverage/leverage_scores.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "stages/core/status_macros.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/leverage/leverage_engine.h"
#include "stages/linalg/blas.h"
#include "stages/linalg/top_eigen.h"

namespace fulcrum::leverage {
namespace {

using linalg::SymmetricOperator;
using linalg::TopEigenRequest;

absl::StatusOr<linalg::TopEigen> SolveDense(const SymmetricOperator& kernel, const TopEigenRequest& request) {
  if (kernel.Dense().empty()) {
    return absl::FailedPreconditionError("the dense engine needs the kernel matrix in memory; use krylov or tiled");
  }
  return linalg::SolveTopEigenDense(kernel.Dense(), request);
}

absl::StatusOr<linalg::TopEigen> SolveKrylov(const SymmetricOperator& kernel, const TopEigenRequest& request) {
  return linalg::SolveTopEigenKrylov(kernel, request);
}

// What a tile costs is shared by all vectors of a block, so wide blocks pay although they need more vectors.
constexpr std::size_t kTiledBlockWidth = 32;
constexpr std::size_t kTiledBasisBytes = std::size_t{448} << 20;
constexpr std::size_t kFewestTiledBlocks = 6;

absl::StatusOr<linalg::TopEigen> SolveTiled(const SymmetricOperator& kernel, const TopEigenRequest& request) {
  const std::size_t bytes = request.basis_bytes > 0 ? request.basis_bytes : kTiledBasisBytes;
  const std::size_t bytes_a_vector = 2 * sizeof(double) * std::max<std::size_t>(kernel.size(), 1);
  linalg::KrylovOptions options;
  options.name = "tiled";
  options.block_width = kTiledBlockWidth;
  options.largest_basis = std::max(bytes / bytes_a_vector, kFewestTiledBlocks * kTiledBlockWidth);
  options.kept_per_rank = 2;
  return linalg::SolveTopEigenKrylov(kernel, request, options);
}

/// The solver of an engine that works on a whole kernel.
absl::StatusOr<linalg::TopEigen> Solve(const std::string& engine, const SymmetricOperator& kernel,
                                       const TopEigenRequest& request) {
  FULCRUM_RETURN_IF_ERROR(FindEngine(engine).status());
  if (engine == "auto" || engine == "krylov") return SolveKrylov(kernel, request);
  if (engine == "dense") return SolveDense(kernel, request);
  if (engine == "tiled") return SolveTiled(kernel, request);
  return absl::FailedPreconditionError(absl::StrFormat(
      "the %s engine works on the rows of a class, not on a kernel matrix; use dense, krylov or tiled", engine));
}

}  // namespace

std::vector<double> ScoresFromVectors(ConstMatrixView vectors, std::size_t rank) {
  std::vector<double> scores(vectors.cols(), 0.0);
  for (std::size_t i = 0; i < rank; ++i) {
    const auto vector = vectors.row(i);
    for (std::size_t j = 0; j < vector.size(); ++j) scores[j] += vector[j] * vector[j];
  }
  // Rounding may not carry a score above one.
  for (double& score : scores) score = std::min(score, 1.0);
  return scores;
}

absl::Status CheckScorable(double tau, std::size_t rows, double trace) {
  if (!(tau > 0 && tau <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("tau is %g; it is a share of the trace and must lie in (0, 1]", tau));
  }
  if (trace > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "the kernel matrix of %d rows has trace %g, so there is nothing to score. Are all the features zero? "
      "Another kernel (rbf) or normalisation may help.",
      rows, trace));
}

absl::StatusOr<linalg::TopEigen> SolveLeadingSpace(const linalg::SymmetricOperator& kernel,
                                                   const LeverageRequest& request) {
  FULCRUM_RETURN_IF_ERROR(CheckScorable(request.tau, kernel.size(), kernel.Trace()));
  linalg::TopEigenRequest eigen_request;
  eigen_request.tau = request.tau;
  eigen_request.seed = request.seed;
  eigen_request.start = request.start;
  eigen_request.start_multiplied = request.start_multiplied;
  eigen_request.dense_at_once = request.dense_at_once;
  eigen_request.basis_bytes = request.basis_bytes;
  return Solve(request.engine, kernel, eigen_request);
}

absl::StatusOr<LeverageScores> ComputeLeverage(const linalg::SymmetricOperator& kernel,
                                               const LeverageRequest& request) {
  LeverageScores result;
  FULCRUM_ASSIGN_OR_RETURN(result.eigen, SolveLeadingSpace(kernel, request));
  result.scores = ScoresFromVectors(result.eigen.vectors.view(), result.eigen.rank);
  return result;
}

ClassScores ScoresOf(const linalg::TopEigen& eigen, std::span<const RowIndex> rows) {
  ClassScores result;
  result.rows.assign(rows.begin(), rows.end());
  result.scores = ScoresFromVectors(eigen.vectors.view(), eigen.rank);
  result.rank = eigen.rank;
  result.trace_share = eigen.trace_share;
  result.residual = eigen.residual;
  result.products = eigen.products;
  result.degenerate_cut = eigen.degenerate_cut;
  result.engine = eigen.engine;
  result.reason = eigen.reason;
  return result;
}

namespace {

constexpr std::size_t kMostColumns = kMostColumnsOfLowRank;
// Rows that are tried first: a kernel has no lower rank than that of some of its rows.
constexpr std::size_t kSampleRows = 64;
// Of the trace: less is left out by rounding errors alone.
constexpr double kNothingLeft = 1e-13;
// Of the largest eigenvalue: vectors of smaller ones would be made of the rounding errors of F'F.
constexpr double kLeastValue = 1e-6;

/// Pivoted Cholesky of a kernel: row j of `factor` is column j of F.
class PartialFactor {
 public:
  PartialFactor(const kernel::KernelFunction& kernel, const kernel::Features& features, std::span<const RowIndex> rows)
      : kernel_(kernel), features_(features), rows_(rows), factor_(kMostColumns, rows.size()), left_(rows.size()) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      left_[i] = kernel::KernelDiagonal(kernel, features.squared_norms()[rows[i]]);
      trace_ += left_[i];
    }
  }

  double trace() const { return trace_; }
  ConstMatrixView columns() const { return factor_.view().Rows(0, size_); }

  /// Whether the whole trace is captured after at most kMostColumns columns.
  bool Complete() {
    while (size_ < kMostColumns) {
      double sum = 0;
      for (const double value : left_) sum += std::max(value, 0.0);
      if (sum <= kNothingLeft * trace_) return true;
      AddColumn(static_cast<std::size_t>(std::ranges::max_element(left_) - left_.begin()));
    }
    return false;
  }

 private:
  void AddColumn(std::size_t pivot) {
    const auto column = factor_.row(size_);
    const RowIndex row = rows_[pivot];
    kernel::ComputeKernelBlock(kernel_, features_, std::span(&row, 1), rows_,
                               MutableMatrixView(column.data(), 1, column.size()));
    for (std::size_t j = 0; j < size_; ++j) linalg::Axpy(-factor_(j, pivot), factor_.row(j), column);
    const double root = std::sqrt(left_[pivot]);
    for (std::size_t i = 0; i < column.size(); ++i) {
      column[i] /= root;
      left_[i] -= column[i] * column[i];
    }
    left_[pivot] = 0;
    ++size_;
  }

  const kernel::KernelFunction& kernel_;
  const kernel::Features& features_;
  const std::span<const RowIndex> rows_;
  Matrix<double> factor_;
  std::size_t size_ = 0;
  std::vector<double> left_;  // diagonal of K - F F'
  double trace_ = 0;
};

}  // namespace

std::vector<std::uint64_t> LowRankSample(std::size_t rows) {
  std::vector<std::uint64_t> positions(kSampleRows);
  for (std::size_t i = 0; i < kSampleRows; ++i) positions[i] = i * rows / kSampleRows;
  return positions;
}

bool SampleHasLowRank(const kernel::KernelFunction& kernel, const kernel::Features& features,
                      std::span<const RowIndex> sample) {
  return PartialFactor(kernel, features, sample).Complete();
}

absl::StatusOr<std::optional<ClassScores>> ScoreLowRank(const kernel::KernelFunction& kernel,
                                                        const kernel::Features& features,
                                                        std::span<const RowIndex> rows, double tau) {
  if (rows.size() < kFewestRowsOfLowRank) return std::nullopt;
  RowList sample;
  for (const std::uint64_t position : LowRankSample(rows.size())) sample.push_back(rows[position]);
  if (!SampleHasLowRank(kernel, features, sample)) return std::nullopt;
  PartialFactor factor(kernel, features, rows);
  FULCRUM_RETURN_IF_ERROR(CheckScorable(tau, rows.size(), factor.trace()));
  if (!factor.Complete()) return std::nullopt;
  const ConstMatrixView columns = factor.columns();
  Matrix<double> gram(columns.rows(), columns.rows());
  linalg::InnerProducts(columns, columns, gram.view());
  FULCRUM_ASSIGN_OR_RETURN(const linalg::FullEigen eigen, linalg::DecomposeSymmetric(std::move(gram)));
  const std::vector<double> values(eigen.values.rbegin(), eigen.values.rend());

  ClassScores result;
  result.rank = linalg::RankForShare(values, factor.trace(), tau);
  if (!(values[result.rank - 1] > kLeastValue * values[0])) return std::nullopt;
  // u_j = F w_j / sqrt(theta_j).
  Matrix<double> weights(result.rank, columns.rows()), vectors(result.rank, rows.size());
  double sum = 0;
  for (std::size_t j = 0; j < result.rank; ++j) {
    sum += values[j];
    const auto w = eigen.vectors.row(columns.rows() - 1 - j);
    for (std::size_t i = 0; i < w.size(); ++i) weights(j, i) = w[i] / std::sqrt(values[j]);
  }
  linalg::Combine(1.0, weights.view(), columns, 0.0, vectors.view());
  result.rows.assign(rows.begin(), rows.end());
  result.scores = ScoresFromVectors(vectors.view(), result.rank);
  result.trace_share = sum / factor.trace();
  result.degenerate_cut =
      result.rank < values.size() && values[result.rank - 1] - values[result.rank] <= 1e-10 * values[0];
  result.reason =
      absl::StrFormat("the kernel of %d rows has rank %d, from as many of its columns", rows.size(), columns.rows());
  return result;
}

}  // namespace fulcrum::leverage
