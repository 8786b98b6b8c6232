// Trains the kernel SVM of a pool repeatedly as labels are added.
//
// Keeps the kernel matrix of the labeled rows and the last multipliers, so that training after a few labels were added,
// changed or withdrawn starts warm. Up to the solver's tolerance, the model is the same as from a cold start. Pairs of
// classes are trained in parallel under oneTBB. A trainer is not thread-safe; separate trainers are independent.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/classify/classifier.h"
#include "stages/classify/smo_solver.h"
#include "stages/classify/svm_model.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/row_set_kernel.h"

namespace fulcrum::classify {

// One pair of classes during training: its examples, its bounds and, after solving, its multipliers.

/// A value; `positions` become invalid when the row set of the kernel changes, all other members stay valid.
struct PairProblem {
  ClassIndex first = 0;                  ///< y = +1
  ClassIndex second = 0;                 ///< y = -1
  std::vector<std::uint32_t> positions;  ///< in the kernel of the labeled rows, ascending
  RowList rows;                          ///< of the pool
  std::vector<double> y;
  std::vector<double> c;
  SmoSolution solution;
  std::size_t starts_since_full_products = 0;  ///< warm starts whose products were only updated

  SmoProblem View(const kernel::RowSetKernel& gram) const { return {gram.matrix(), positions, y, c}; }
};

/// Returns the examples of two classes among the rows of `gram`, in the order of the matrix. With two classes this is
/// the whole matrix, so the solver reads rows in place. `labels` are by pool row.
PairProblem MakePairProblem(ClassIndex first, ClassIndex second, const kernel::RowSetKernel& gram,
                            std::span<const ClassIndex> labels, const SvmParameters& parameters);

/// Returns the examples of the pair by ascending pool row, which is independent of the order of the matrix.
std::vector<std::uint32_t> ExamplesByRow(const PairProblem& pair);

class SvmTrainer final : public Classifier {
 public:
  /// Keeps a reference to `features`, which must outlive the trainer. Train checks the parameters.
  SvmTrainer(SvmParameters parameters, const kernel::Features& features);

  absl::StatusOr<SvmModel> Train(std::span<const ClassIndex> labels, std::size_t class_count) override;
  absl::Status FitProbabilities(SvmModel& model) const override;
  void MoveTo(const kernel::Features& grown) override;
  void Reset() override;
  const TrainingReport& report() const override { return report_; }

  const SvmParameters& parameters() const { return parameters_; }

 private:
  /// Returns whether the pair started warm.
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

// Carries the multipliers of one training over to the next, after labels were added, changed or withdrawn.
//
// An example that stays keeps its multiplier and its kernel product, minus the contribution of removed examples. A new
// example starts at zero with a computed product. The gradient costs O(changed * labels) instead of O(support vectors *
// labels). Pure functions, thread-safe.

struct CarriedMultipliers {
  std::vector<double> alpha;
  std::vector<double> products;  ///< empty: cheaper or more accurate if the solver computes them from alpha
  SmoStart View() const { return {alpha, products}; }
};

/// `previous` is the last solution of the same pair; `next` is not solved yet. `gram` is the kernel of the currently
/// labeled rows; rows that are no longer in it are read from its features.
CarriedMultipliers CarryMultipliers(const PairProblem& previous, const PairProblem& next,
                                    const kernel::RowSetKernel& gram);

}  // namespace fulcrum::classify
