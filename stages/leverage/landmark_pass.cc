#include "stages/leverage/landmark_pass.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "stages/core/parallel.h"
#include "stages/core/rows.h"
#include "stages/kernel/float_columns.h"
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
    const std::span<const RowIndex> sample = sampled_.rows();
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
    sampled_.WriteTile(sampled_.CopyBlock(block), 0, to_sample.view());
    linalg::Gemm(Transpose::kYes, Transpose::kNo, 1.0F, std::as_const(to_sample).view(), u, 0.0F, products.view());
    return products;
  }

  const LeadingVectors& vectors_;
  kernel::FloatColumns sampled_;
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

namespace {

// A tile of 256 x 512 floats is half a megabyte: it is multiplied before it leaves the cache.
constexpr std::size_t kPanel = 512;

}  // namespace

void ExtendToBlock(const kernel::FloatColumns& columns, MatrixView<const float> coefficients,
                   const kernel::FloatBlock& block, MatrixView<float> values) {
  Matrix<float> tile(block.rows.size(), std::min(kPanel, columns.size()));
  for (std::size_t first = 0; first < columns.size(); first += kPanel) {
    const auto part = tile.view().Cols(0, std::min(kPanel, columns.size() - first));
    columns.WriteTile(block, first, part);
    linalg::Gemm(Transpose::kNo, Transpose::kNo, 1.0F, part, coefficients.Rows(first, part.cols()),
                 first == 0 ? 0.0F : 1.0F, values);
  }
}

Matrix<float> ExtendToRows(const kernel::FloatColumns& columns, MatrixView<const float> coefficients,
                           std::span<const RowIndex> rows, const BlockStream& stream) {
  Matrix<float> values(rows.size(), coefficients.cols());
  const auto extend = [&](std::size_t index) {
    const std::size_t first = index * kExtendedRows, count = std::min(kExtendedRows, rows.size() - first);
    ExtendToBlock(columns, coefficients, columns.CopyBlock(rows.subspan(first, count)),
                  values.view().Rows(first, count));
  };
  // What was extended is in its place already; there is nothing to take.
  stream.Run((rows.size() + kExtendedRows - 1) / kExtendedRows, BlocksForAllThreads(), extend, [](std::size_t) {});
  return values;
}

namespace {

/// Takes away from the landmarks in a block what only they themselves see of them.
void LeaveOneOut(const LandmarkResiduals& view, std::span<const RowIndex> block, MatrixView<float> u) {
  const std::span<const RowIndex> landmarks = view.landmarks->rows();
  for (std::size_t i = 0; i < block.size(); ++i) {
    const auto found = std::ranges::lower_bound(landmarks, block[i]);
    if (found == landmarks.end() || *found != block[i]) continue;
    const auto s = static_cast<std::size_t>(found - landmarks.begin());
    for (std::size_t j = 0; j < u.cols(); ++j) {
      u(i, j) -= static_cast<float>(view.unseen[s]) * (*view.projection)(s, j);
    }
  }
}

}  // namespace

LeadingVectors VectorsSeen(const LandmarkResiduals& view, std::span<const double> values) {
  return {values, [view](std::span<const RowIndex> block, std::size_t) {
            Matrix<float> u(block.size(), view.projection->cols());
            ExtendToBlock(*view.landmarks, view.projection->view(), view.landmarks->CopyBlock(block), u.view());
            if (!view.unseen.empty()) LeaveOneOut(view, block, u.view());
            return u;
          }};
}

namespace {

// Rows at a time: enough that adding a block's float32 sums to the doubles costs nothing beside making them, few enough
// for float32 sums to stay exact to 1e-6.
constexpr std::size_t kRowsPerBlock = 2048;
// One is written while the other is multiplied.
constexpr std::size_t kBlocksAtOnce = 2;
constexpr std::size_t kRowsPerTile = 256;

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

void AddScaled(double factor, MatrixView<const float> from, MutableMatrixView to) {
  for (std::size_t i = 0; i < from.rows(); ++i) {
    const auto row = from.row(i);
    const auto sums = to.row(i);
    for (std::size_t j = 0; j < row.size(); ++j) sums[j] += factor * static_cast<double>(row[j]);
  }
}

}  // namespace

LandmarkGram::LandmarkGram(const kernel::FloatColumns& columns)
    : columns_(columns), upper_(Matrix<double>::Zero(columns.size(), columns.size())) {}

void LandmarkGram::Clear() {
  std::fill_n(upper_.data(), upper_.rows() * upper_.stride(), 0.0);
}

void LandmarkGram::WriteKernel(std::span<const RowIndex> rows, MatrixView<float> out) const {
  ParallelForBlocks(rows.size(), kRowsPerTile, [&](std::size_t first, std::size_t count) {
    columns_.WriteTile(columns_.CopyBlock(rows.subspan(first, count)), 0, out.Rows(first, count));
  });
}

void LandmarkGram::AddProducts(MatrixView<const float> values, double sign) {
  const std::vector<PanelPair> panels = UpperPanels(columns_.size());
  ParallelForBlocks(panels.size(), 1, [&](std::size_t index, std::size_t) {
    const PanelPair& panel = panels[index];
    Matrix<float> product(panel.rows, panel.columns);
    linalg::Gemm(linalg::Transpose::kYes, linalg::Transpose::kNo, 1.0F, values.Cols(panel.row, panel.rows),
                 values.Cols(panel.column, panel.columns), 0.0F, product.view());
    AddScaled(sign, product.view(), upper_.view().Block(panel.row, panel.column, panel.rows, panel.columns));
  });
}

void LandmarkGram::Accumulate(std::span<const RowIndex> rows, double sign, const BlockStream& stream) {
  std::vector<Matrix<float>> blocks(kBlocksAtOnce);
  const auto rows_of = [&](std::size_t index) {
    return rows.subspan(index * kRowsPerBlock, std::min(kRowsPerBlock, rows.size() - index * kRowsPerBlock));
  };
  const auto write = [&](std::size_t index) {
    Matrix<float>& block = blocks[index % kBlocksAtOnce];
    if (block.empty()) block = Matrix<float>(std::min(kRowsPerBlock, rows.size()), columns_.size());
    WriteKernel(rows_of(index), block.view().Rows(0, rows_of(index).size()));
  };
  const auto add = [&](std::size_t index) {
    AddProducts(std::as_const(blocks[index % kBlocksAtOnce]).view().Rows(0, rows_of(index).size()), sign);
  };
  stream.Run((rows.size() + kRowsPerBlock - 1) / kRowsPerBlock, kBlocksAtOnce, write, add);
}

Matrix<double> LandmarkGram::Symmetric(double factor) const {
  Matrix<double> both = upper_.Clone();
  for (std::size_t i = 0; i < both.rows(); ++i) {
    for (std::size_t j = 0; j < i; ++j) both(i, j) = both(j, i);
    for (std::size_t j = i; j < both.cols(); ++j) both(i, j) *= factor;
  }
  return both;
}

}  // namespace fulcrum::leverage
