// Operations on tall, narrow matrices: bases of a few hundred columns over many rows.
//
// Parallel over fixed blocks of rows, sums taken in the order of the blocks, so that results do not depend
// on the number of threads.
#pragma once

#include "stages/core/matrix.h"

namespace fulcrum::linalg {

/// out = a^T b.
void TransposeMultiply(ConstMatrixView a, ConstMatrixView b, MutableMatrixView out);

/// c = alpha * a * b + beta * c with tall a and c, small b.
void TallMultiply(double alpha, ConstMatrixView a, ConstMatrixView b, double beta, MutableMatrixView c);

/// Makes the columns of `block` orthonormal among themselves and orthogonal to the orthonormal columns of
/// `basis`. Columns that depend on the others are dropped. Returns how many are left, in the first columns.
std::size_t OrthonormalizeAgainst(ConstMatrixView basis, MutableMatrixView block);

/// Makes the columns of `block` orthonormal and applies the same rotation to `companion` (A times the block, say).
/// Returns how many columns are left in the first columns of both.
std::size_t OrthonormalizeTogether(MutableMatrixView block, MutableMatrixView companion);

}  // namespace fulcrum::linalg
