// Trains the kernel SVM of a pool, again and again as labels come in.
//
// It keeps the kernel matrix of the labeled rows and the last multipliers, so a training after a few labels were
// added, changed or withdrawn starts warm; the model is the same as from a cold start to the solver's tolerance.
// Pairs of classes are trained in parallel under oneTBB. One trainer is not thread-safe; separate ones are.
#pragma once

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/classify/pair_problem.h"
#include "stages/classify/svm_model.h"
#include "stages/classify/svm_parameters.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/row_set_kernel.h"

namespace fulcrum::classify {

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

}  // namespace fulcrum::classify
