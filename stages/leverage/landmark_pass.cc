
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "stages/core/communicator.h"
#include "stages/core/parallel.h"
#include "stages/core/rows.h"
#include "stages/core/status_macros.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/leverage/landmarks.h"
#include "stages/leverage/leverage_scores.h"
#include "stages/linalg/blas.h"

namespace fulcrum::leverage {
namespace {

using linalg::Transpose;

class Pass {
 public:
  Pass(const kernel::KernelFunction& kernel, const kernel::Features& features, const LeadingVectors& vectors,
       std::span<const RowIndex> sample)
      : vectors_(vectors),
        sampled_(kernel, features, sample),
        at_sample_(sample.size(), rank()),
        products_(Matrix<double>::Zero(sample.size(), rank())) {}

  /// Scores of all rows of the class.
  void Stream(const BlockStream& stream, std::span<const RowIndex> rows, std::span<double> scores) {
    // Kept apart until they are added up in order.
    std::vector<Matrix<float>> sums(BlocksForAllThreads());
    const auto score = [&](std::size_t index) {
      const std::size_t first = index * kExtendedRows, count = std::min(kExtendedRows, rows.size() - first);
      const std::span<const RowIndex> block = rows.subspan(first, count);
      const Matrix<float> u = vectors_.of_block(block, first);
      WriteScores(u.view(), scores.subspan(first, count));
      KeepSampled(block, u.view());
      sums[index % sums.size()] = ProductsWith(block, u.view());
    };
    const auto add = [&](std::size_t index) {
      const Matrix<float>& part = sums[index % sums.size()];
      for (std::size_t i = 0; i < part.rows(); ++i) {
        for (std::size_t j = 0; j < part.cols(); ++j) products_(i, j) += static_cast<double>(part(i, j));
      }
    };
    stream.Run((rows.size() + kExtendedRows - 1) / kExtendedRows, sums.size(), score, add);
  }

  /// Over a class of so many rows, once all of them were streamed; 0 without a sample.
  double Residual(std::size_t rows) const {
    if (products_.rows() == 0) return 0;
    double largest = 0;
    for (std::size_t j = 0; j < rank(); ++j) {
      double squares = 0;
      for (std::size_t i = 0; i < products_.rows(); ++i) {
        squares += std::pow(products_(i, j) - vectors_.values[j] * static_cast<double>(at_sample_(i, j)), 2);
      }
      largest = std::max(largest, squares);
    }
    const double rows_for_one = static_cast<double>(rows) / static_cast<double>(products_.rows());
    return std::sqrt(largest * rows_for_one) / vectors_.values[0];
  }

 private:
  std::size_t rank() const { return vectors_.values.size(); }

  static void WriteScores(MatrixView<const float> u, std::span<double> scores) {
    for (std::size_t i = 0; i < u.rows(); ++i) {
      double score = 0;
      for (const float value : u.row(i)) score += static_cast<double>(value) * static_cast<double>(value);
      scores[i] = std::min(score, 1.0);
    }
  }

  /// u_j(t) of the sampled rows t in a block.
  void KeepSampled(std::span<const RowIndex> rows, MatrixView<const float> u) {
    const std::span<const RowIndex> sample = sampled_.columns();
    for (auto found = std::ranges::lower_bound(sample, rows.front()); found != sample.end() && *found <= rows.back();
         ++found) {
      const auto position = std::ranges::lower_bound(rows, *found) - rows.begin();
      std::ranges::copy(u.row(static_cast<std::size_t>(position)),
                        at_sample_.row(static_cast<std::size_t>(found - sample.begin())).begin());
    }
  }

  /// What a block adds to (K u_j)(t) of the sampled rows t.
  Matrix<float> ProductsWith(std::span<const RowIndex> block, MatrixView<const float> u) const {
    if (sampled_.size() == 0) return {};
    Matrix<float> to_sample(block.size(), sampled_.size()), products(sampled_.size(), rank());
    sampled_.Write(sampled_.Pack(block), to_sample.view());
    linalg::Gemm(Transpose::kYes, Transpose::kNo, 1.0F, std::as_const(to_sample).view(), u, 0.0F, products.view());
    return products;
  }

  const LeadingVectors& vectors_;
  kernel::KernelTiles<float> sampled_;
  Matrix<float> at_sample_;  // u_j(t)
  Matrix<double> products_;  // (K u_j)(t), as far as streamed
};

}  // namespace

LandmarkPass ScoreRows(const kernel::KernelFunction& kernel, const kernel::Features& features,
                       const LeadingVectors& vectors, std::span<const RowIndex> rows, std::span<const RowIndex> sample,
                       const BlockStream& stream) {
  Pass pass(kernel, features, vectors, sample);
  LandmarkPass result{std::vector<double>(rows.size()), 0};
  pass.Stream(stream, rows, result.scores);
  result.residual = pass.Residual(rows.size());
  return result;
}

void ExtendToBlock(const kernel::KernelTiles<float>& columns, MatrixView<const float> coefficients,
                   const kernel::TileRows& block, MatrixView<float> values) {
  columns.ForEachTile(block, [&](std::size_t row, std::size_t column, MatrixView<const float> tile) {
    linalg::Gemm(Transpose::kNo, Transpose::kNo, 1.0F, tile, coefficients.Rows(column, tile.cols()),
                 column == 0 ? 0.0F : 1.0F, values.Rows(row, tile.rows()));
  });
}

Matrix<float> ExtendToRows(const kernel::KernelTiles<float>& columns, MatrixView<const float> coefficients,
                           std::span<const RowIndex> rows, const BlockStream& stream) {
  Matrix<float> values(rows.size(), coefficients.cols());
  const auto extend = [&](std::size_t index) {
    const std::size_t first = index * kExtendedRows, count = std::min(kExtendedRows, rows.size() - first);
    ExtendToBlock(columns, coefficients, columns.Pack(rows.subspan(first, count)), values.view().Rows(first, count));
  };
  // The values are in their place; nothing is left to do when a block is taken.
  stream.Run((rows.size() + kExtendedRows - 1) / kExtendedRows, BlocksForAllThreads(), extend, [](std::size_t) {});
  return values;
}

namespace {

/// Subtracts from the landmarks in a block the part that only they themselves represent.
void LeaveOneOut(const LandmarkResiduals& view, std::span<const RowIndex> block, MatrixView<float> u) {
  const std::span<const RowIndex> landmarks = view.own_rows.value_or(view.landmarks->columns());
  for (std::size_t i = 0; i < block.size(); ++i) {
    const auto found = std::ranges::lower_bound(landmarks, block[i]);
    if (found == landmarks.end() || *found != block[i]) continue;
    const auto s = view.first_own + static_cast<std::size_t>(found - landmarks.begin());
    for (std::size_t j = 0; j < u.cols(); ++j) {
      u(i, j) -= static_cast<float>(view.unseen[s]) * (*view.projection)(s, j);
    }
  }
}

}  // namespace

LeadingVectors VectorsSeen(const LandmarkResiduals& view, std::span<const double> values) {
  return {values, [view](std::span<const RowIndex> block, std::size_t) {
            Matrix<float> u(block.size(), view.projection->cols());
            ExtendToBlock(*view.landmarks, view.projection->view(), view.landmarks->Pack(block), u.view());
            if (!view.unseen.empty()) LeaveOneOut(view, block, u.view());
            return u;
          }};
}

namespace {

// Rows at a time: enough that adding a block's float32 sums to the doubles costs little compared to computing them, few
// enough for float32 sums to stay exact to 1e-6.
constexpr std::size_t kRowsPerBlock = 2048;
// One is written while the other is multiplied.
constexpr std::size_t kBlocksAtOnce = 2;
// Rows and columns of the sum that one task adds to.
constexpr std::size_t kPanel = 512;

struct PanelPair {
  std::size_t row = 0, rows = 0, column = 0, columns = 0;
};

std::vector<PanelPair> UpperPanels(std::size_t size) {
  std::vector<PanelPair> panels;
  for (std::size_t row = 0; row < size; row += kPanel) {
    for (std::size_t column = row; column < size; column += kPanel) {
      panels.push_back({row, std::min(kPanel, size - row), column, std::min(kPanel, size - column)});
    }
  }
  return panels;
}

void AddScaled(double factor, MatrixView<const float> from, const ExactTerms& terms, MutableMatrixView to) {
  for (std::size_t i = 0; i < from.rows(); ++i) {
    const auto row = from.row(i);
    const auto sums = to.row(i);
    for (std::size_t j = 0; j < row.size(); ++j) sums[j] += factor * terms(static_cast<double>(row[j]));
  }
}

/// Consecutive rows of at most kRowsPerBlock each, none of which crosses a multiple of `unit`.
std::vector<std::span<const RowIndex>> CutIntoBlocks(std::span<const RowIndex> rows, std::size_t unit) {
  std::vector<std::span<const RowIndex>> blocks;
  for (std::size_t first = 0, count = 0; first < rows.size(); first += count) {
    count = std::min(kRowsPerBlock, rows.size() - first);
    if (unit > 0) {
      const std::size_t end = (rows[first] / unit + 1) * unit;
      const auto some = rows.subspan(first, count);
      count = static_cast<std::size_t>(std::ranges::lower_bound(some, end) - some.begin());
    }
    blocks.push_back(rows.subspan(first, count));
  }
  return blocks;
}

}  // namespace

SumOrder OrderOfClass(std::size_t pool_rows, std::size_t class_rows, double largest_diagonal) {
  // Room for a class that grows to twice its size before its landmarks are drawn again.
  constexpr double kGrowth = 4;
  return {.unit = RowsPerUnit(pool_rows),
          .bound = kGrowth * static_cast<double>(class_rows) * largest_diagonal * largest_diagonal};
}

double TraceOfRows(const kernel::KernelFunction& kernel, const kernel::Features& features,
                   std::span<const RowIndex> rows, double bound) {
  const ExactTerms terms(bound);
  double trace = 0;
  for (const RowIndex row : rows) trace += terms(kernel::KernelDiagonal(kernel, features.squared_norms()[row]));
  return trace;
}

LandmarkGram::LandmarkGram(const kernel::KernelTiles<float>& columns, const SumOrder& order)
    : columns_(columns),
      upper_(Matrix<double>::Zero(columns.size(), columns.size())),
      unit_(order.unit),
      terms_(order.bound) {}

void LandmarkGram::SumOverRanks(const Communicator& peers) {
  if (peers.is_alone()) return;
  for (const PanelPair& panel : UpperPanels(columns_.size())) {
    const MutableMatrixView part = upper_.view().Block(panel.row, panel.column, panel.rows, panel.columns);
    std::vector<double> values;
    values.reserve(panel.rows * panel.columns);
    for (std::size_t i = 0; i < part.rows(); ++i) values.insert(values.end(), part.row(i).begin(), part.row(i).end());
    peers.ReduceSum(values);
    CopyMatrix<double>(ConstMatrixView(values.data(), panel.rows, panel.columns), part);
  }
}

void LandmarkGram::Clear() {
  std::fill_n(upper_.data(), upper_.rows() * upper_.stride(), 0.0);
}

void LandmarkGram::AddProducts(MatrixView<const float> values, double sign) {
  const std::vector<PanelPair> panels = UpperPanels(columns_.size());
  ParallelForBlocks(panels.size(), 1, [&](std::size_t index, std::size_t) {
    const PanelPair& panel = panels[index];
    Matrix<float> product(panel.rows, panel.columns);
    linalg::Gemm(linalg::Transpose::kYes, linalg::Transpose::kNo, 1.0F, values.Cols(panel.row, panel.rows),
                 values.Cols(panel.column, panel.columns), 0.0F, product.view());
    AddScaled(sign, product.view(), terms_, upper_.view().Block(panel.row, panel.column, panel.rows, panel.columns));
  });
}

void LandmarkGram::Accumulate(std::span<const RowIndex> rows, double sign, const BlockStream& stream) {
  std::vector<Matrix<float>> blocks(kBlocksAtOnce);
  const std::vector<std::span<const RowIndex>> cut = CutIntoBlocks(rows, unit_);
  const auto write = [&](std::size_t index) {
    Matrix<float>& block = blocks[index % kBlocksAtOnce];
    if (block.empty()) block = Matrix<float>(std::min(kRowsPerBlock, rows.size()), columns_.size());
    columns_.Write(cut[index], block.view().Rows(0, cut[index].size()));
  };
  const auto add = [&](std::size_t index) {
    AddProducts(std::as_const(blocks[index % kBlocksAtOnce]).view().Rows(0, cut[index].size()), sign);
  };
  stream.Run(cut.size(), kBlocksAtOnce, write, add);
}

Matrix<double> LandmarkGram::Symmetric(double factor) const {
  Matrix<double> both = upper_.Clone();
  for (std::size_t i = 0; i < both.rows(); ++i) {
    for (std::size_t j = 0; j < i; ++j) both(i, j) = both(j, i);
    for (std::size_t j = i; j < both.cols(); ++j) both(i, j) *= factor;
  }
  return both;
}

namespace {

// Multiplications of the product that are worth spending on a class.
constexpr double kRefinementWork = 2e12;
// Vectors beyond the rank absorb errors of those before them; with fewer than these nothing is gained.
constexpr double kVectorsPerRank = 1.25;
// Vectors with smaller eigenvalues than this share of the last one that counts do not improve it.
constexpr double kLeastOfTheLast = 0.05;
// Those with smaller ones than this share of the first cannot be told from float32 rounding.
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
  return m * m * static_cast<double>(dims + kMostRefinedVectors) <= kRefinementWork;
}

std::size_t RefinementBytes(std::size_t rows, std::size_t dims) {
  // The vectors, the functions, and the features side by side.
  return sizeof(float) * rows * (2 * kMostRefinedVectors + dims);
}

std::size_t VectorsToRefine(const linalg::TopEigen& eigen) {
  const auto wanted = static_cast<std::size_t>(kVectorsPerRank * static_cast<double>(eigen.rank));
  if (wanted > kMostRefinedVectors) return 0;
  const double least = std::max(kLeastOfTheLast * eigen.values[eigen.rank - 1], kLeastOfTheFirst * eigen.values[0]);
  const std::size_t most = std::min(eigen.vectors.rows(), kMostRefinedVectors);
  std::size_t count = 0;
  while (count < most && linalg::RitzValue(eigen, count) >= least) ++count;
  return count >= eigen.rank ? count : 0;
}

absl::StatusOr<RefinedScores> Refine(const kernel::KernelFunction& kernel, const kernel::Features& features,
                                     std::span<const RowIndex> rows, MatrixView<const float> start,
                                     const RefinementRequest& request, std::span<const RowIndex> sample,
                                     const BlockStream& stream) {
  const kernel::KernelTiles<float> columns(kernel, features, rows);
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
