#include "stages/leverage/leverage_scores.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "stages/core/status_macros.h"
#include "stages/leverage/engine_registry.h"

namespace fulcrum::leverage {

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
  FULCRUM_ASSIGN_OR_RETURN(const Engine* engine, FindEngine(request.engine));
  linalg::TopEigenRequest eigen_request;
  eigen_request.tau = request.tau;
  eigen_request.seed = request.seed;
  eigen_request.start = request.start;
  eigen_request.start_multiplied = request.start_multiplied;
  eigen_request.dense_at_once = request.dense_at_once;
  eigen_request.basis_bytes = request.basis_bytes;
  return engine->solve(kernel, eigen_request);
}

absl::StatusOr<LeverageScores> ComputeLeverage(const linalg::SymmetricOperator& kernel,
                                               const LeverageRequest& request) {
  LeverageScores result;
  FULCRUM_ASSIGN_OR_RETURN(result.eigen, SolveLeadingSpace(kernel, request));
  result.scores = ScoresFromVectors(result.eigen.vectors.view(), result.eigen.rank);
  return result;
}

}  // namespace fulcrum::leverage
