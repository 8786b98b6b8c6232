// A trained classifier: a kernel expansion for every pair of the labeled classes, as a one-against-one SVM has it.
//
// A plain value, movable; immutable use is thread-safe. Support vectors are rows of the pool that the model was trained
// on (or of the features of a loaded model, see model_file.h); the features are not part of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"

namespace fulcrum::classify {

/// P(first | x, first or second) = 1 / (1 + exp(a * decision + b)).
struct PlattParameters {
  double a = 0;
  double b = 0;
};

/// One binary decision: positive for `first`, negative (or zero) for `second`; first < second.
struct SvmPair {
  ClassIndex first = 0;
  ClassIndex second = 0;
  double rho = 0;
  double objective = 0;  ///< of the dual, with LIBSVM's sign (negative)
  std::size_t iterations = 0;
  std::size_t support_count = 0;
  bool converged = true;
  bool has_platt = false;
  PlattParameters platt;
};

struct SvmModel {
  std::size_t class_count = 0;  ///< of the campaign; a class without labels is not in any pair
  kernel::KernelFunction kernel;
  std::vector<SvmPair> pairs;   ///< ordered by (first, second)
  RowList support_rows;         ///< ascending; those with a non-zero coefficient in any pair
  Matrix<double> coefficients;  ///< y * alpha, support vectors x pairs

  bool has_probabilities() const;
  double objective() const;                         ///< summed over the pairs
  std::size_t iterations() const;                   ///< summed over the pairs
  bool converged() const;                           ///< all pairs
  std::vector<ClassIndex> classes_present() const;  ///< ascending
  SvmModel Clone() const;
};

/// Classes in any pair, ascending.
std::vector<ClassIndex> ClassesOf(std::span<const SvmPair> pairs);

/// The features of the support vectors as dense rows, in their order: there are few of them. Unimplemented if only the
/// inner products of the features are known.
absl::StatusOr<Matrix<double>> SupportVectors(const SvmModel& model, const kernel::Features& features);

// Training parameters of a classifier. A plain value.

struct SvmParameters {
  std::string classifier = "svm";          ///< a name of the registry (classifier.h)
  kernel::KernelFunction kernel = {};      ///< by default rbf with sigma 1
  double c = 1;                            ///< penalty of an example
  std::vector<double> class_weights = {};  ///< factor of c by class index; empty means 1 for all
  double tolerance = 1e-3;                 ///< svm: largest KKT violation (LIBSVM's eps); logistic: error of a value
  std::uint64_t seed = 1;                  ///< of the cross-validation folds for the probabilities
  bool shrinking = true;                   ///< exclude multipliers that will stay at a bound from the search
};

/// Returns an error if the kernel is invalid, if c, a weight or the tolerance is not positive and finite, or if the
/// number of weights is neither zero nor `class_count`.
absl::Status ValidateSvmParameters(const SvmParameters& parameters, std::size_t class_count);

/// The same without checking the number of weights.
absl::Status ValidateSvmParameters(const SvmParameters& parameters);

}  // namespace fulcrum::classify
