// What a kernel SVM is trained with. A plain value: copy it freely.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "stages/kernel/kernel_function.h"

namespace fulcrum::classify {

/// The settings of a C-SVC, one against one where there are more than two classes.
struct SvmParameters {
  kernel::KernelFunction kernel = {};      ///< rbf with sigma 1 unless told otherwise
  double c = 1;                            ///< upper bound of the multipliers
  std::vector<double> class_weights = {};  ///< factor of c by class index; empty means 1 for all
  double tolerance = 1e-3;                 ///< largest KKT violation (LIBSVM's eps)
  std::uint64_t seed = 1;                  ///< of the cross-validation folds behind the probabilities
  bool shrinking = true;                   ///< leave multipliers that will stay at a bound out of the search
};

/// Rejects a bad kernel, c, weights or tolerance that are not positive and finite, and a number of weights that is
/// neither zero nor `class_count`.
absl::Status ValidateSvmParameters(const SvmParameters& parameters, std::size_t class_count);

/// The same without a look at the number of classes.
absl::Status ValidateSvmParameters(const SvmParameters& parameters);

}  // namespace fulcrum::classify
