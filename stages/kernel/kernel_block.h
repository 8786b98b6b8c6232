// Rectangular and symmetric blocks of a kernel matrix, computed by GEMM in tiles under oneTBB.
//
// A tile is a fixed number of rows and columns, so the values do not depend on the number of threads.
#pragma once

#include <span>

#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"

namespace fulcrum::kernel {

/// out(i, j) = K(x_{a[i]}, x_{b[j]}).
void ComputeKernelBlock(const KernelFunction& kernel, const Features& features, std::span<const RowIndex> a,
                        std::span<const RowIndex> b, MutableMatrixView out);

/// out(i, j) = K(x_{a[i]}, z_{b[j]}) with z from another set of rows, such as a test set.
void ComputeKernelBlock(const KernelFunction& kernel, const Features& features, std::span<const RowIndex> a,
                        const Features& other, std::span<const RowIndex> b, MutableMatrixView out);

/// out(i, j) = K(x_{rows[i]}, x_{rows[j]}), both triangles filled, half of them computed.
void ComputeKernelSymmetric(const KernelFunction& kernel, const Features& features, std::span<const RowIndex> rows,
                            MutableMatrixView out);

}  // namespace fulcrum::kernel
