#include "stages/leverage/landmark_gram.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "stages/core/parallel.h"
#include "stages/linalg/blas.h"

namespace fulcrum::leverage {
namespace {

// Rows at a time: enough that adding a block's float32 sums to the doubles costs nothing beside making them, few enough
// for float32 sums to stay exact to 1e-6.
constexpr std::size_t kRowsPerBlock = 2048;
// One is written while the other is multiplied.
constexpr std::size_t kBlocksAtOnce = 2;
constexpr std::size_t kRowsPerTile = 256;
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
