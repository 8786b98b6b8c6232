#include "stages/kernel/tiled_kernel.h"

#include <algorithm>
#include <utility>

#include "stages/linalg/blas.h"

namespace fulcrum::kernel {
namespace {

using linalg::Transpose;

constexpr std::size_t kPanel = KernelTiles<double>::kColumns;

/// The panels that meet in a turn of a round-robin tournament of an even number of panels; each panel once.
std::pair<std::size_t, std::size_t> PairOfTurn(std::size_t panels, std::size_t turn, std::size_t pair) {
  const std::size_t others = panels - 1;
  if (pair == 0) return {turn, others};
  const std::size_t a = (turn + pair) % others, b = (turn + others - pair) % others;
  return {std::min(a, b), std::max(a, b)};
}

}  // namespace

TiledKernel::TiledKernel(const KernelFunction& kernel, const Features& features, std::span<const RowIndex> rows,
                         const BlockStream& stream)
    : rows_(rows), stream_(stream), tiles_(kernel, features, rows) {
  for (RowIndex row : rows) trace_ += KernelDiagonal(kernel, features.squared_norms()[row]);
}

void TiledKernel::MultiplyPanels(std::size_t first, std::size_t second, ConstMatrixView x, MutableMatrixView y) const {
  tiles_.ForEachTileOfPanels(first, second, [&](std::size_t row, std::size_t column, ConstMatrixView tile) {
    if (first != second) {
      linalg::Gemm(Transpose::kNo, Transpose::kNo, 1.0, x.Cols(row, tile.rows()), tile, 1.0,
                   y.Cols(column, tile.cols()));
    }
    linalg::Gemm(Transpose::kNo, Transpose::kYes, 1.0, x.Cols(column, tile.cols()), tile, 1.0,
                 y.Cols(row, tile.rows()));
  });
}

void TiledKernel::Stream(std::size_t count, const BlockStream::BlockCall& multiply) const {
  // The products are in their place; nothing is left to do when a block is taken.
  stream_.Run(count, BlocksForAllThreads(), multiply, [](std::size_t) {});
}

void TiledKernel::Apply(ConstMatrixView x, MutableMatrixView y) const {
  const std::size_t panels = tiles_.panels();
  Stream(panels, [&](std::size_t panel) {
    const std::size_t first = panel * kPanel, count = std::min(kPanel, size() - first);
    for (std::size_t i = 0; i < y.rows(); ++i) std::fill_n(y.row(i).data() + first, count, 0.0);
    MultiplyPanels(panel, panel, x, y);
  });
  // With an odd number of panels one of them has no partner in each turn.
  const std::size_t contestants = panels + panels % 2;
  for (std::size_t turn = 0; turn + 1 < contestants; ++turn) {
    Stream(contestants / 2, [&](std::size_t pair) {
      const auto [first, second] = PairOfTurn(contestants, turn, pair);
      if (second < panels) MultiplyPanels(first, second, x, y);
    });
  }
}

void TiledKernel::WriteRows(std::span<const RowIndex> some, MutableMatrixView out) const {
  tiles_.Write(some, out);
}

}  // namespace fulcrum::kernel
