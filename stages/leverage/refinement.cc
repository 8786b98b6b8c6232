#include "stages/leverage/refinement.h"

#include <algorithm>
#include <utility>

#include "stages/core/status_macros.h"
#include "stages/kernel/float_columns.h"
#include "stages/leverage/kernel_subspace.h"
#include "stages/leverage/landmark_pass.h"
#include "stages/leverage/leverage_scores.h"
#include "stages/linalg/blas.h"

namespace fulcrum::leverage {
namespace {

using linalg::Transpose;

// Multiplications of the product that are worth spending on a class.
constexpr double kRefinementWork = 2e12;
constexpr std::size_t kMostVectors = 256;
// Vectors beyond the rank take in what would spoil those before them; with less than these nothing is gained.
constexpr double kVectorsPerRank = 1.25;
// Vectors with smaller eigenvalues than this part of the last one that counts have no say in it.
constexpr double kLeastOfTheLast = 0.05;
// And those with smaller ones than this part of the first cannot be told from rounding in float32.
constexpr double kLeastOfTheFirst = 1e-4;
// Float32 sums over so many rows are added up in double precision.
constexpr std::size_t kSummedRows = 2048;

/// The sum over the rows of a(x) b(x)'.
Matrix<double> SumOfProducts(MatrixView<const float> a, MatrixView<const float> b) {
  Matrix<double> sum = Matrix<double>::Zero(a.cols(), b.cols());
  Matrix<float> part(a.cols(), b.cols());
  for (std::size_t first = 0; first < a.rows(); first += kSummedRows) {
    const std::size_t count = std::min(kSummedRows, a.rows() - first);
    linalg::Gemm(Transpose::kYes, Transpose::kNo, 1.0F, a.Rows(first, count), b.Rows(first, count), 0.0F, part.view());
    for (std::size_t i = 0; i < sum.rows(); ++i) {
      for (std::size_t j = 0; j < sum.cols(); ++j) sum(i, j) += static_cast<double>(part(i, j));
    }
  }
  return sum;
}

/// Rounding leaves the two triangles of a symmetric matrix a little apart.
void Symmetrize(MutableMatrixView matrix) {
  for (std::size_t i = 0; i < matrix.rows(); ++i) {
    for (std::size_t j = 0; j < i; ++j) matrix(i, j) = matrix(j, i) = (matrix(i, j) + matrix(j, i)) / 2;
  }
}

/// Rayleigh-Ritz on functions with these inner products and this sum over the class.
absl::StatusOr<SpanSolution> SolveFor(Matrix<double> inner_products, Matrix<double> gram,
                                      const RefinementRequest& request) {
  Symmetrize(inner_products.view());
  Symmetrize(gram.view());
  FULCRUM_ASSIGN_OR_RETURN(const KernelSubspace span, KernelSubspace::OfInnerProducts(std::move(inner_products)));
  return span.Solve(std::move(gram), request.trace, request.tau, request.seed, {});
}

}  // namespace

bool IsRefinable(std::size_t rows, std::size_t dims) {
  const auto m = static_cast<double>(rows);
  return m * m * static_cast<double>(dims + kMostVectors) <= kRefinementWork;
}

std::size_t RefinementBytes(std::size_t rows, std::size_t dims) {
  // The vectors, the functions, and the features side by side.
  return sizeof(float) * rows * (2 * kMostVectors + dims);
}

std::size_t VectorsToRefine(const linalg::TopEigen& eigen) {
  const auto wanted = static_cast<std::size_t>(kVectorsPerRank * static_cast<double>(eigen.rank));
  if (wanted > kMostVectors) return 0;
  const double least = std::max(kLeastOfTheLast * eigen.values[eigen.rank - 1], kLeastOfTheFirst * eigen.values[0]);
  const std::size_t most = std::min(eigen.vectors.rows(), kMostVectors);
  std::size_t count = 0;
  while (count < most && linalg::RitzValue(eigen, count) >= least) ++count;
  return count >= eigen.rank ? count : 0;
}

absl::StatusOr<RefinedScores> Refine(const kernel::KernelFunction& kernel, const kernel::Features& features,
                                     std::span<const RowIndex> rows, MatrixView<const float> start,
                                     const RefinementRequest& request, std::span<const RowIndex> sample,
                                     const BlockStream& stream) {
  const kernel::FloatColumns columns(kernel, features, rows);
  const Matrix<float> functions = ExtendToRows(columns, start, rows, stream);
  FULCRUM_ASSIGN_OR_RETURN(
      const SpanSolution solution,
      SolveFor(SumOfProducts(start, functions.view()), SumOfProducts(functions.view(), functions.view()), request));
  const auto vectors_of_block = [&](std::span<const RowIndex> block, std::size_t first) {
    Matrix<float> u(block.size(), solution.eigen.rank);
    linalg::Gemm(Transpose::kNo, Transpose::kNo, 1.0F, functions.view().Rows(first, block.size()),
                 solution.projection.view(), 0.0F, u.view());
    return u;
  };
  return RefinedScores{
      .rank = solution.eigen.rank,
      .trace_share = solution.eigen.trace_share,
      .pass = ScoreRows(kernel, features, {solution.eigen.values, vectors_of_block}, rows, sample, stream)};
}

absl::StatusOr<std::vector<double>> RefineInMemory(const linalg::SymmetricOperator& kernel, ConstMatrixView start,
                                                   const RefinementRequest& request) {
  Matrix<double> functions(start.rows(), start.cols()), inner_products(start.rows(), start.rows()),
      gram(start.rows(), start.rows());
  kernel.Apply(start, functions.view());
  linalg::InnerProducts(start, functions.view(), inner_products.view());
  linalg::InnerProducts(functions.view(), functions.view(), gram.view());
  FULCRUM_ASSIGN_OR_RETURN(const SpanSolution solution, SolveFor(std::move(inner_products), std::move(gram), request));
  Matrix<double> coefficients(solution.eigen.rank, start.rows()), vectors(solution.eigen.rank, start.cols());
  for (std::size_t i = 0; i < coefficients.rows(); ++i) {
    for (std::size_t j = 0; j < coefficients.cols(); ++j) coefficients(i, j) = solution.projection(j, i);
  }
  linalg::Combine(1.0, coefficients.view(), functions.view(), 0.0, vectors.view());
  return ScoresFromVectors(vectors.view(), vectors.rows());
}

}  // namespace fulcrum::leverage
