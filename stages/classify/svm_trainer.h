// Trains the kernel SVM of a pool, again and again as labels come in.
//
// It keeps the kernel matrix of the labeled rows and the last multipliers, so a training after a few labels were
// added, changed or withdrawn starts warm; the model is the same as from a cold start to the solver's tolerance.
// Pairs of classes are trained in parallel under oneTBB. One trainer is not thread-safe; separate ones are.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/classify/smo_solver.h"
#include "stages/classify/svm_model.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/row_set_kernel.h"

namespace fulcrum::classify {

// One pair of classes during training: its examples, its bounds and, once solved, its multipliers.

/// A value; `positions` are valid until the kernel's set of rows changes, everything else is.
struct PairProblem {
  ClassIndex first = 0;                  ///< y = +1
  ClassIndex second = 0;                 ///< y = -1
  std::vector<std::uint32_t> positions;  ///< in the kernel of the labeled rows, ascending
  RowList rows;                          ///< of the pool
  std::vector<double> y;
  std::vector<double> c;
  SmoSolution solution;
  std::size_t starts_since_full_products = 0;  ///< warm starts whose products were only updated (svm_warm_start.h)

  SmoProblem View(const kernel::RowSetKernel& gram) const { return {gram.matrix(), positions, y, c}; }
};

/// The examples of two classes among the rows of `gram`, in the order of the matrix: with two classes, all of it,
/// so the solver reads rows in place. `labels` are by pool row.
PairProblem MakePairProblem(ClassIndex first, ClassIndex second, const kernel::RowSetKernel& gram,
                            std::span<const ClassIndex> labels, const SvmParameters& parameters);

/// The pair's examples by ascending pool row, which does not depend on the order of the matrix.
std::vector<std::uint32_t> ExamplesByRow(const PairProblem& pair);

/// What the last training did.
struct TrainingReport {
  bool warm = false;  ///< at least one pair started from earlier multipliers
  std::size_t labels = 0;
  std::size_t iterations = 0;  ///< summed over the pairs
  double objective = 0;        ///< summed over the pairs
  std::size_t support_vectors = 0;
  bool converged = true;
  kernel::RowSetKernel::UpdateStats kernel_update;
};

class SvmTrainer {
 public:
  /// Keeps a reference to `features`, which must outlive it. The parameters are checked by Train.
  SvmTrainer(SvmParameters parameters, const kernel::Features& features);

  /// `labels` has one entry a pool row, kUnlabeled where there is none. FailedPrecondition where fewer than two
  /// classes have labels. The model has no probabilities until FitProbabilities is called.
  absl::StatusOr<SvmModel> Train(std::span<const ClassIndex> labels, std::size_t class_count);

  /// Fits the sigmoids of a model that the last Train returned, by cross-validation.
  absl::Status FitProbabilities(SvmModel& model) const;

  /// The same features with more rows behind them: the next training is warm. They must outlive it in their turn.
  void MoveTo(const kernel::Features& grown);

  /// Forgets everything; the next training is a cold one.
  void Reset();

  const SvmParameters& parameters() const { return parameters_; }
  const TrainingReport& report() const { return report_; }

 private:
  absl::StatusOr<std::vector<ClassIndex>> CheckLabels(std::span<const ClassIndex> labels,
                                                      std::size_t class_count) const;
  /// Whether it started warm.
  bool SolvePair(PairProblem& pair) const;
  const PairProblem* LastOf(ClassIndex first, ClassIndex second) const;
  SvmModel AssembleModel(std::size_t class_count) const;
  SmoOptions Options() const;

  SvmParameters parameters_;
  const kernel::Features* features_;
  kernel::RowSetKernel gram_;
  std::vector<PairProblem> last_;  // ordered by (first, second)
  TrainingReport report_;
};

// Carries the multipliers of one training over to the next, when labels were added, changed or withdrawn between.
//
// An example that stayed keeps its multiplier and its kernel product, less what those that left contributed to it;
// a newcomer starts at zero with a product of its own. So the gradient costs O(changed * labels) instead of
// O(support vectors * labels). Pure functions, thread-safe.

struct WarmStart {
  std::vector<double> alpha;
  std::vector<double> products;  ///< empty: cheaper or safer for the solver to compute them from alpha
  SmoStart View() const { return {alpha, products}; }
};

/// `previous` is the same pair as it was solved last; `next` is not solved yet. `gram` is the kernel of the rows
/// labeled now; rows that are no longer in it are fetched from its features.
WarmStart MakeWarmStart(const PairProblem& previous, const PairProblem& next, const kernel::RowSetKernel& gram);

}  // namespace fulcrum::classify
