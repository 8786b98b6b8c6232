#include "stages/kernel/tiled_kernel.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "stages/kernel/kernel_block.h"
#include "stages/linalg/blas.h"

namespace fulcrum::kernel {
namespace {

using linalg::Transpose;

// A tile of 128 x 512 numbers is half a megabyte: it is still in cache when its products are taken.
constexpr std::size_t kPanel = 512;
constexpr std::size_t kTileRows = 128;

/// Who meets whom in a turn of a round-robin tournament of an even number of panels; each panel once.
std::pair<std::size_t, std::size_t> PairOfTurn(std::size_t panels, std::size_t turn, std::size_t pair) {
  const std::size_t others = panels - 1;
  if (pair == 0) return {turn, others};
  const std::size_t a = (turn + pair) % others, b = (turn + others - pair) % others;
  return {std::min(a, b), std::max(a, b)};
}

}  // namespace

TiledKernel::TiledKernel(const KernelFunction& kernel, const Features& features, std::span<const RowIndex> rows,
                         const BlockStream& stream)
    : kernel_(kernel),
      features_(features),
      rows_(rows),
      stream_(stream),
      gathered_(features.Gather(rows)),
      numbers_(rows.begin(), rows.end()) {
  if (gathered_ != nullptr) std::iota(numbers_.begin(), numbers_.end(), RowIndex{0});
  norms_.reserve(rows.size());
  for (RowIndex row : rows) {
    norms_.push_back(features.squared_norms()[row]);
    trace_ += KernelDiagonal(kernel_, norms_.back());
  }
}

std::size_t TiledKernel::panels() const {
  return (size() + kPanel - 1) / kPanel;
}

void TiledKernel::MultiplyPanels(std::size_t first, std::size_t second, ConstMatrixView x, MutableMatrixView y) const {
  thread_local Matrix<double> buffer(kTileRows, kPanel);
  const Features& source = gathered_ != nullptr ? *gathered_ : features_;
  const std::span<const RowIndex> numbers(numbers_);
  const std::span<const double> norms(norms_);
  const std::size_t column = second * kPanel;
  const std::size_t columns = std::min(kPanel, size() - column);
  const std::size_t end = std::min((first + 1) * kPanel, size());
  for (std::size_t row = first * kPanel; row < end; row += kTileRows) {
    const std::size_t rows = std::min(kTileRows, end - row);
    const MutableMatrixView tile = buffer.view().Block(0, 0, rows, columns);
    source.DotBlock(numbers.subspan(row, rows), source, numbers.subspan(column, columns), tile);
    ApplyKernelToDots(kernel_, norms.subspan(row, rows), norms.subspan(column, columns), tile);
    if (first == second) {
      for (std::size_t i = 0; i < rows; ++i) tile(i, row - column + i) = KernelDiagonal(kernel_, norms[row + i]);
    } else {
      linalg::Gemm(Transpose::kNo, Transpose::kNo, 1.0, x.Cols(row, rows), tile, 1.0, y.Cols(column, columns));
    }
    linalg::Gemm(Transpose::kNo, Transpose::kYes, 1.0, x.Cols(column, columns), tile, 1.0, y.Cols(row, rows));
  }
}

void TiledKernel::Stream(std::size_t count, const BlockStream::BlockCall& multiply) const {
  // What was multiplied is in its place already; there is nothing to take.
  stream_.Run(count, BlocksForAllThreads(), multiply, [](std::size_t) {});
}

void TiledKernel::Apply(ConstMatrixView x, MutableMatrixView y) const {
  Stream(panels(), [&](std::size_t panel) {
    const std::size_t first = panel * kPanel, count = std::min(kPanel, size() - first);
    for (std::size_t i = 0; i < y.rows(); ++i) std::fill_n(y.row(i).data() + first, count, 0.0);
    MultiplyPanels(panel, panel, x, y);
  });
  // With an odd number of panels one of them meets nobody in each turn.
  const std::size_t contestants = panels() + panels() % 2;
  for (std::size_t turn = 0; turn + 1 < contestants; ++turn) {
    Stream(contestants / 2, [&](std::size_t pair) {
      const auto [first, second] = PairOfTurn(contestants, turn, pair);
      if (second < panels()) MultiplyPanels(first, second, x, y);
    });
  }
}

void TiledKernel::WriteRows(std::span<const RowIndex> some, MutableMatrixView out) const {
  ComputeKernelBlock(kernel_, features_, some, rows_, out);
}

}  // namespace fulcrum::kernel
