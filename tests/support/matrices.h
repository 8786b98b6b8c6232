// Small random inputs for tests.
#pragma once

#include <cstdint>

#include "stages/core/matrix.h"
#include "stages/kernel/kernel_function.h"

namespace fulcrum::testing {

/// Returns independent standard normal elements.
Matrix<double> RandomMatrix(std::size_t rows, std::size_t cols, std::uint64_t seed);

/// Computes the kernel matrix by the textbook formula, one pair at a time: the reference for optimised versions.
Matrix<double> NaiveKernel(const kernel::KernelFunction& kernel, ConstMatrixView a, ConstMatrixView b);

}  // namespace fulcrum::testing
