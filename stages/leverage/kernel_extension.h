// Functions that are sums of kernel functions, evaluated at blocks of rows: f_j(x) = sum over s of c(s, j) K(s, x).
//
// The tiles of the kernel are multiplied while they are in the cache, and nothing of them is kept. Pure functions,
// thread-safe.
#pragma once

#include <span>

#include "stages/core/block_stream.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/float_columns.h"

namespace fulcrum::leverage {

/// Rows of a block that the functions below are best called with.
inline constexpr std::size_t kExtendedRows = 256;

/// values(i, j) = f_j(row i of the block); `coefficients` has a row for every column of the kernel. One thread.
void ExtendToBlock(const kernel::FloatColumns& columns, MatrixView<const float> coefficients,
                   const kernel::FloatBlock& block, MatrixView<float> values);

/// The same for many rows: values(i, j) = f_j(rows[i]).
Matrix<float> ExtendToRows(const kernel::FloatColumns& columns, MatrixView<const float> coefficients,
                           std::span<const RowIndex> rows, const BlockStream& stream);

}  // namespace fulcrum::leverage
