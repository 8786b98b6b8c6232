#include "stages/leverage/leverage_scores.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "stages/core/status_macros.h"
#include "stages/leverage/leverage_engine.h"
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

}  // namespace fulcrum::leverage
