// Operations on blocks of long vectors: a few hundred rows, each a vector over many pool rows.
//
// Vectors are rows, so that each lies in one piece and MKL multiplies short, wide matrices, which it does up to
// twice as fast as tall, narrow ones. Parallel over fixed slices of the vectors, sums taken in the order of the slices,
// so that results do not depend on the number of threads.
#pragma once

#include "stages/core/matrix.h"

namespace fulcrum::linalg {

/// out(i, j) = inner product of vector i of `a` and vector j of `b`.
void InnerProducts(ConstMatrixView a, ConstMatrixView b, MutableMatrixView out);

/// result = alpha * coefficients * vectors + beta * result: each row a combination of `vectors`.
void Combine(double alpha, ConstMatrixView coefficients, ConstMatrixView vectors, double beta,
             MutableMatrixView result);

/// The first vectors of `block` become coefficients * block; a slice at a time, so that there is no second block.
void CombineInPlace(ConstMatrixView coefficients, MutableMatrixView block);

/// Makes the vectors of `block` orthonormal among themselves and orthogonal to the orthonormal vectors of `basis`.
/// Those that depend on the others are dropped. Returns how many are left, the first ones.
std::size_t OrthonormalizeAgainst(ConstMatrixView basis, MutableMatrixView block);

/// Writes the vectors of `block`, made orthonormal, and `companion` (A times the block, say) under the same rotation.
/// The outputs are of the same shape as the inputs. Returns how many are left, the first ones of both.
std::size_t OrthonormalizeTogether(ConstMatrixView block, ConstMatrixView companion, MutableMatrixView block_out,
                                   MutableMatrixView companion_out);

}  // namespace fulcrum::linalg
