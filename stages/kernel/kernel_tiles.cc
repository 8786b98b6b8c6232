#include "stages/kernel/kernel_tiles.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <type_traits>
#include <utility>

#include "stages/linalg/blas.h"

namespace fulcrum::kernel {
namespace {

constexpr std::size_t kRowsPerTask = 1024;

std::vector<float> MeanOf(MatrixView<const float> values) {
  std::vector<double> sums(values.cols(), 0.0);
  for (std::size_t i = 0; i < values.rows(); ++i) {
    const auto row = values.row(i);
    for (std::size_t j = 0; j < row.size(); ++j) sums[j] += static_cast<double>(row[j]);
  }
  std::vector<float> mean(values.cols());
  std::transform(sums.begin(), sums.end(), mean.begin(),
                 [&](double sum) { return static_cast<float>(sum / static_cast<double>(values.rows())); });
  return mean;
}

/// In double precision, in sums that the compiler can keep in one vector register.
double SquaredNorm(std::span<const float> values) {
  constexpr std::size_t kSums = 8;
  double sums[kSums] = {};
  std::size_t i = 0;
  for (; i + kSums <= values.size(); i += kSums) {
    for (std::size_t j = 0; j < kSums; ++j) {
      sums[j] += static_cast<double>(values[i + j]) * static_cast<double>(values[i + j]);
    }
  }
  double total = 0;
  for (; i < values.size(); ++i) total += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return std::accumulate(sums, sums + kSums, total);
}

Matrix<float> CopyFloats(const Features& features, std::span<const RowIndex> rows) {
  Matrix<float> copy(rows.size(), features.dims());
  ParallelForBlocks(rows.size(), kRowsPerTask, [&](std::size_t first, std::size_t count) {
    features.CopyRows(rows.subspan(first, count), copy.view().Rows(first, count));
  });
  return copy;
}

void Round(MatrixView<const double> from, MatrixView<float> to) {
  for (std::size_t i = 0; i < from.rows(); ++i) {
    std::ranges::transform(from.row(i), to.row(i).begin(), [](double value) { return static_cast<float>(value); });
  }
}

}  // namespace

template <typename T>
KernelTiles<T>::KernelTiles(const KernelFunction& kernel, const Features& features, std::span<const RowIndex> columns,
                            ColumnMemory memory)
    : kernel_(kernel), features_(features), columns_(columns.begin(), columns.end()), memory_(memory) {
  assert(memory == ColumnMemory::kPacked || (std::is_same_v<T, double>));
  if (memory == ColumnMemory::kStreamed) return;
  const bool shifts = kernel.type == KernelType::kRbf || kernel.type == KernelType::kSquaredDistance;
  if (in_float(features) && shifts && !columns.empty()) {
    packed_.size = columns.size();
    packed_.floats = CopyFloats(features, columns);
    centre_ = MeanOf(std::as_const(packed_.floats).view());
    packed_.float_norms = Centre(packed_.floats.view());
  } else {
    packed_ = Pack(columns);
  }
}

template <typename T>
bool KernelTiles<T>::in_float(const Features& features) const {
  return std::is_same_v<T, float> && features.kind() == FeatureKind::kDense;
}

template <typename T>
TileRows KernelTiles<T>::Pack(const Features& features, std::span<const RowIndex> rows) const {
  TileRows block{.size = rows.size()};
  if (in_float(features)) {
    block.floats = CopyFloats(features, rows);
    block.float_norms = Centre(block.floats.view());
  } else {
    block.packed = features.Pack(rows);
    block.norms = SquaredNormsOf(features, rows);
  }
  return block;
}

template <typename T>
std::vector<float> KernelTiles<T>::Centre(MatrixView<float> values) const {
  std::vector<float> norms(values.rows());
  ParallelForBlocks(values.rows(), kRowsPerTask, [&](std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) {
      const auto row = values.row(i);
      for (std::size_t j = 0; j < centre_.size(); ++j) row[j] -= centre_[j];
      norms[i] = static_cast<float>(SquaredNorm(row));
    }
  });
  return norms;
}

template <typename T>
void KernelTiles<T>::Evaluate(const TileRows& a, std::size_t a_first, const TileRows& b, std::size_t b_first,
                              MatrixView<T> tile) const {
  if (tile.empty()) return;
  const auto multiply_in_double = [&](MutableMatrixView out) {
    MultiplyRows(a.packed, a_first, b.packed, b_first, out);
    ApplyKernelToDots(kernel_, std::span(a.norms).subspan(a_first, out.rows()),
                      std::span(b.norms).subspan(b_first, out.cols()), out);
  };
  if constexpr (std::is_same_v<T, double>) {
    multiply_in_double(tile);
  } else if (a.floats.empty()) {
    Matrix<double> values(tile.rows(), tile.cols());
    multiply_in_double(values.view());
    Round(values.view(), tile);
  } else {
    linalg::Gemm(linalg::Transpose::kNo, linalg::Transpose::kYes, 1.0F, a.floats.view().Rows(a_first, tile.rows()),
                 b.floats.view().Rows(b_first, tile.cols()), 0.0F, tile);
    ApplyKernelToDots(kernel_, std::span(a.float_norms).subspan(a_first, tile.rows()),
                      std::span(b.float_norms).subspan(b_first, tile.cols()), tile);
  }
}

template <typename T>
void KernelTiles<T>::EvaluateColumns(const TileRows& block, std::size_t row, std::size_t column,
                                     MatrixView<T> tile) const {
  if (memory_ == ColumnMemory::kPacked) {
    Evaluate(block, row, packed_, column, tile);
  } else {
    Evaluate(block, row, Pack(std::span(columns_).subspan(column, tile.cols())), 0, tile);
  }
}

template <typename T>
void KernelTiles<T>::SetDiagonal(std::size_t row, std::size_t column, MatrixView<T> tile) const {
  for (std::size_t i = 0; i < tile.rows(); ++i) {
    const double norm = features_.squared_norms()[columns_[row + i]];
    tile(i, row - column + i) = static_cast<T>(KernelDiagonal(kernel_, norm));
  }
}

template <typename T>
void KernelTiles<T>::Write(const TileRows& block, MatrixView<T> out) const {
  const auto place = [&](std::size_t row, std::size_t column, std::size_t rows, std::size_t columns) {
    return out.Block(row, column, rows, columns);
  };
  Loop(block, place, [](std::size_t, std::size_t, MatrixView<const T>) {});
}

template <typename T>
void KernelTiles<T>::Write(std::span<const RowIndex> rows, MatrixView<T> out) const {
  const TileRows block = Pack(rows);
  ParallelForTiles<T>(rows.size(), size(),
                      [&](std::size_t row, std::size_t row_count, std::size_t column, std::size_t column_count) {
                        EvaluateColumns(block, row, column, out.Block(row, column, row_count, column_count));
                      });
}

template <typename T>
void KernelTiles<T>::WriteRow(RowIndex row, std::size_t first, std::span<T> values) const {
  const TileRows block = Pack(std::span(&row, 1));
  const MatrixView<T> tile(values.data(), 1, values.size());
  if constexpr (std::is_same_v<T, float>) {
    if (!block.floats.empty()) {
      // A matrix-vector product is faster than GEMM for one row.
      linalg::Gemv(linalg::Transpose::kNo, 1.0F, packed_.floats.view().Rows(first, values.size()),
                   std::as_const(block.floats).row(0), 0.0F, values);
      ApplyKernelToDots(kernel_, block.float_norms, std::span(packed_.float_norms).subspan(first, values.size()), tile);
      return;
    }
  }
  EvaluateColumns(block, 0, first, tile);
}

template class KernelTiles<float>;
template class KernelTiles<double>;

void ComputeKernelBlock(const KernelFunction& kernel, const Features& features, std::span<const RowIndex> a,
                        const Features& other, std::span<const RowIndex> b, MutableMatrixView out) {
  // Rows of a large pool may be the columns, so that each tile packs its own.
  ParallelForTiles<double>(
      a.size(), b.size(), [&](std::size_t row, std::size_t row_count, std::size_t column, std::size_t column_count) {
        const KernelTiles<double> tiles(kernel, other, b.subspan(column, column_count));
        tiles.Write(tiles.Pack(features, a.subspan(row, row_count)), out.Block(row, column, row_count, column_count));
      });
}

void ComputeKernelBlock(const KernelFunction& kernel, const Features& features, std::span<const RowIndex> a,
                        std::span<const RowIndex> b, MutableMatrixView out) {
  ComputeKernelBlock(kernel, features, a, features, b, out);
}

namespace {

/// Makes a tile on the diagonal exactly symmetric, with the exact diagonal.
void SettleDiagonalTile(const KernelFunction& kernel, const Features& features, std::span<const RowIndex> rows,
                        MutableMatrixView tile) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    tile(i, i) = KernelDiagonal(kernel, features.squared_norms()[rows[i]]);
    for (std::size_t j = 0; j < i; ++j) tile(i, j) = tile(j, i);
  }
}

void MirrorTile(ConstMatrixView tile, MutableMatrixView mirrored) {
  for (std::size_t i = 0; i < tile.rows(); ++i) {
    for (std::size_t j = 0; j < tile.cols(); ++j) mirrored(j, i) = tile(i, j);
  }
}

}  // namespace

void ComputeKernelSymmetric(const KernelFunction& kernel, const Features& features, std::span<const RowIndex> rows,
                            MutableMatrixView out) {
  ParallelForTiles<double>(rows.size(), rows.size(),
                           [&](std::size_t row, std::size_t row_count, std::size_t column, std::size_t column_count) {
                             // A panel that the diagonal crosses begins at the diagonal; tiles below it are mirrored.
                             const std::size_t end = column + column_count, first = std::max(row, column);
                             if (end <= row) return;
                             const KernelTiles<double> tiles(kernel, features, rows.subspan(first, end - first));
                             const MutableMatrixView upper = out.Block(row, first, row_count, end - first);
                             tiles.Write(tiles.Pack(rows.subspan(row, row_count)), upper);
                             const std::size_t on_diagonal = first == row ? row_count : 0;
                             if (on_diagonal > 0) {
                               SettleDiagonalTile(kernel, features, rows.subspan(row, row_count),
                                                  upper.Cols(0, row_count));
                             }
                             MirrorTile(upper.Cols(on_diagonal, upper.cols() - on_diagonal),
                                        out.Block(first + on_diagonal, row, upper.cols() - on_diagonal, row_count));
                           });
}

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
