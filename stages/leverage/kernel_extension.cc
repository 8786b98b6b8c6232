#include "stages/leverage/kernel_extension.h"

#include <algorithm>
#include <utility>

#include "stages/linalg/blas.h"

namespace fulcrum::leverage {
namespace {

using linalg::Transpose;

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

}  // namespace fulcrum::leverage
