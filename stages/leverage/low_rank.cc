#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "stages/core/status_macros.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/leverage/leverage_scores.h"
#include "stages/linalg/blas.h"
#include "stages/linalg/top_eigen.h"

namespace fulcrum::leverage {
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
