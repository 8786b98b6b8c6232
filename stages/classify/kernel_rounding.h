// Bounds on the rounding errors of kernel values.
#pragma once

#include <cstddef>

#include "stages/kernel/kernel_function.h"

namespace fulcrum::classify {

/// For rows of `dims` features with a squared norm of at most `largest_squared_norm`.
struct KernelRounding {
  double largest_value = 0;  ///< bound on |K|
  double value_error = 0;    ///< bound on the difference of two computations of one K by GEMM
};

KernelRounding BoundKernelRounding(const kernel::KernelFunction& kernel, std::size_t dims, double largest_squared_norm);

}  // namespace fulcrum::classify
