// A trained classifier: a kernel expansion for every pair of the labeled classes, as a one-against-one SVM has it.
//
// A plain value, movable; immutable use is thread-safe. Support vectors are rows of the pool that the model was trained
// on (or of the features of a loaded model, see model_file.h); the features are not part of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"
#include "stages/kernel/kernel_tiles.h"

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

// Batched prediction: decision values of many rows by GEMM, votes, and probabilities.
//
// Pure functions, thread-safe; work is tiled under oneTBB, and the results do not depend on the number of threads.

/// out(i, p) = decision value of pair p for row rows[i] of `features`. The support rows of the model are rows of
/// `support_features`; the predicted rows may be of another set (a test set) with the same kind and dimension.
void DecisionValues(const SvmModel& model, const kernel::Features& support_features, const kernel::Features& features,
                    std::span<const RowIndex> rows, MutableMatrixView out);

/// The same for all rows of `features`, in order: rows x pairs.
Matrix<double> DecisionValues(const SvmModel& model, const kernel::Features& support_features,
                              const kernel::Features& features);

/// Returns the class with the most votes of the pairs; ties go to the smaller class.
ClassIndex VoteClass(const SvmModel& model, std::span<const double> decisions);

/// VoteClass of every row of `decisions` (rows x pairs), on the calling thread.
void VoteClasses(const SvmModel& model, ConstMatrixView decisions, std::span<ClassIndex> classes);
/// The same in parallel.
std::vector<ClassIndex> VoteClasses(const SvmModel& model, ConstMatrixView decisions);

/// margins[i] = the smallest decision value of classes[i], as VoteClasses gives them, against another class: 0 or less
/// is the greatest doubt. With two classes it is |decision|. On the calling thread.
void VoteMargins(const SvmModel& model, ConstMatrixView decisions, std::span<const ClassIndex> classes,
                 std::span<double> margins);

/// Returns the probabilities of all classes of the campaign (a class without labels has 0), rows x class_count. With
/// two classes: Platt's sigmoid; with more: coupled. Returns FailedPrecondition if the model has no Platt parameters.
absl::StatusOr<Matrix<double>> Probabilities(const SvmModel& model, ConstMatrixView decisions);

// K(rows, support) * coefficients without K(rows, support) in memory: each tile of the kernel is multiplied and
// forgotten. Tiles have a fixed size and run under oneTBB, so values do not depend on the number of threads. If the
// precision of the features is float (a pool that is not in memory), kernel values are float32 and the sums are
// doubles.

/// The support side of a kernel product: examples and what each weighs in every output column.
struct WeightedRows {
  const kernel::Features* features = nullptr;
  std::span<const RowIndex> rows;
  ConstMatrixView coefficients;  ///< rows x columns
};

/// The product prepared for any rows of `features`: what depends on the support side alone is computed once.
/// Thread-safe after construction. Refers to everything it was made of.
class KernelProduct {
 public:
  KernelProduct(const kernel::KernelFunction& kernel, const WeightedRows& support, const kernel::Features& features);
  ~KernelProduct();

  /// Rows in memory, as the product reads them.
  using Block = kernel::TileRows;
  /// Reads rows, on the calling thread.
  Block Read(std::span<const RowIndex> rows) const;

  /// out(i, p) = offsets[p] + sum_s K(x_{rows[i]}, z_{support.rows[s]}) coefficients(s, p), or added to what `out`
  /// holds if `accumulate` is set. One thread, tile by tile; the values of a row are the same in any block that begins
  /// at a multiple of kBlockRows.
  void Compute(std::span<const RowIndex> rows, std::span<const double> offsets, bool accumulate,
               MutableMatrixView out) const;
  /// The same for rows that were read before.
  void Compute(const Block& block, std::span<const double> offsets, bool accumulate, MutableMatrixView out) const;

  /// A block should have a multiple of so many rows: it consists of whole tiles then.
  static constexpr std::size_t kBlockRows = 512;

 private:
  class Sums;
  template <typename T>
  class SumsOfTiles;

  std::unique_ptr<Sums> sums_;
};

/// The same for all of `rows` under oneTBB.
void ComputeKernelProduct(const kernel::KernelFunction& kernel, const WeightedRows& support,
                          const kernel::Features& features, std::span<const RowIndex> rows,
                          std::span<const double> offsets, bool accumulate, MutableMatrixView out);

}  // namespace fulcrum::classify
