// Trains the kernel SVM of a pool repeatedly as labels are added.
//
// Keeps the kernel matrix of the labeled rows and the last multipliers, so that training after a few labels were added,
// changed or withdrawn starts warm. Up to the solver's tolerance, the model is the same as from a cold start. Pairs of
// classes are trained in parallel under oneTBB. A trainer is not thread-safe; separate trainers are independent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/classify/classifier.h"
#include "stages/classify/svm_model.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"

namespace fulcrum::classify {

// Sequential minimal optimisation of one binary C-SVC on a kernel matrix in memory.
//
//   minimise 1/2 a' Q a - sum a,  0 <= a_t <= c_t,  sum y_t a_t = 0,  Q(s, t) = y_s y_t K(s, t)
//
// Uses working sets by second-order information, shrinking with reconstruction of the gradient, and a start from any
// earlier multipliers, which are made feasible first. An example with c_t = 0 is excluded from the optimisation but its
// kernel product is computed, which is used to hold out a fold. Deterministic; pure functions, thread-safe.

/// Views of the caller's memory, valid during the call.
struct SmoProblem {
  ConstMatrixView gram;
  std::span<const std::uint32_t> positions;  ///< example t is row and column positions[t] of gram
  std::span<const double> y;                 ///< +1 or -1
  std::span<const double> c;                 ///< upper bound of each multiplier, >= 0
};

struct SmoOptions {
  double tolerance = 1e-3;  ///< largest KKT violation
  bool shrinking = true;
  std::size_t max_iterations = 0;  ///< 0: as LIBSVM, ten million or a hundred per example, whichever is more
};

/// The start; a cold start if both are empty.
struct SmoStart {
  std::span<const double> alpha;
  /// sum_s K(t, s) y_s alpha_s for this alpha, if known; otherwise it is computed.
  std::span<const double> products;
};

struct SmoSolution {
  std::vector<double> alpha;
  std::vector<double> products;  ///< sum_s K(t, s) y_s alpha_s; minus rho it is the decision value of example t
  double rho = 0;
  double objective = 0;
  std::size_t iterations = 0;
  bool converged = true;  ///< false if max_iterations was reached
};

SmoSolution SolveSmo(const SmoProblem& problem, const SmoOptions& options, const SmoStart& start = {});

// Converts arbitrary signed multipliers to a feasible start of the SMO solver.

/// Moves each beta_t = y_t alpha_t into [lower_t, upper_t] and their sum to zero, up to rounding. The excess of one
/// side is taken from the free multipliers of that side first, in order, then from those at their bound, because a
/// multiplier at its bound most likely stays there. Every lower_t <= 0 <= upper_t, so this always succeeds.
void MakeFeasible(std::span<const double> lower, std::span<const double> upper, std::span<double> beta);

// The scans of the SMO solver: the selection of the next pair of multipliers to change (second-order selection of Fan,
// Chen and Lin 2005), and the corresponding gradient update. Training spends most of its time here, so they are
// vectorised; results do not depend on the width of a lane.
//
// Multipliers are signed, beta = y * alpha, so that neither labels nor Q = y y' K appear: the gradient is f_t = sum_s
// K(t, s) beta_s - y_t, "up" means that beta_t may grow, "low" that it may shrink. An example that may not move in a
// direction has a penalty of +infinity there, which avoids a branch.

inline constexpr std::size_t kNoExample = std::numeric_limits<std::size_t>::max();

/// The smallest f among those that may grow; ties go to the smaller index.
struct FirstChoice {
  double value = std::numeric_limits<double>::infinity();
  std::size_t index = kNoExample;
};

/// The partner with the largest second-order decrease of the objective, and the largest f among those that may shrink.
struct SecondChoice {
  std::size_t index = kNoExample;
  double largest_low = -std::numeric_limits<double>::infinity();
};

/// Lower bound of K(i, i) + K(t, t) - 2 K(i, t), for duplicates and kernels that are not positive definite.
inline constexpr double kLeastCurvature = 1e-12;

FirstChoice SelectFirst(std::span<const double> f, std::span<const double> up_penalty);

/// f += step * (row_i - row_j), then SelectFirst, in one pass.
FirstChoice UpdateAndSelectFirst(std::span<double> f, std::span<const double> up_penalty, const double* row_i,
                                 const double* row_j, double step);

/// `row_i` and `diagonal_i` belong to the first choice, whose f is `first_value`.
SecondChoice SelectSecond(std::span<const double> f, std::span<const double> low_penalty,
                          std::span<const double> diagonal, const double* row_i, double diagonal_i, double first_value);

// The kernel of one binary problem as the SMO solver reads it: contiguous rows over the active examples.
//
// The kernel of the problem is a selection of rows and columns of a larger Gram matrix in memory. If the selection is
// consecutive, rows are read in place. Otherwise, and after shrinking, a row is gathered on first use and kept, because
// the solver uses the same few rows many times. Not thread-safe; the Gram matrix and the positions must outlive it.

class ActiveKernel {
 public:
  /// Example t of the problem is row and column positions[t] of `gram`. Initially all examples are active.
  ActiveKernel(ConstMatrixView gram, std::span<const std::uint32_t> positions);

  std::size_t active_count() const { return active_.size(); }
  /// The example of each active slot, ascending.
  std::span<const std::uint32_t> active() const { return active_; }
  double Diagonal(std::size_t example) const { return gram_(positions_[example], positions_[example]); }
  /// Returns K of an active slot with all active slots. Valid until Restrict or ActivateAll.
  const double* Row(std::size_t slot);

  /// Keeps the active slots of `kept`, ascending.
  void Restrict(std::span<const std::uint32_t> kept);
  void ActivateAll();

  /// out[t] += sum_s weights[s] * K(t, examples[s]) for every example t of the problem, active or not.
  void AccumulateProduct(std::span<const std::uint32_t> examples, std::span<const double> weights,
                         std::span<double> out) const;

 private:
  bool ReadsInPlace() const { return neighbours_ && active_.size() == positions_.size(); }
  const double* GramRow(std::size_t example) const { return gram_.row(positions_[example]).data(); }

  ConstMatrixView gram_;
  std::span<const std::uint32_t> positions_;
  bool neighbours_ = true;                   // positions_ is p, p+1, p+2, ...
  std::vector<std::uint32_t> active_;        // examples
  std::vector<std::vector<double>> copies_;  // by slot; empty until first use
};

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

// Platt scaling: a sigmoid that turns decision values into probabilities.
//
// The fit is the Newton method with backtracking of Lin, Lin and Weng (2007), on held-out decision values of five
// folds, as in LIBSVM. Determined by the seed. Pure functions, thread-safe.

/// Returns the sigmoid that best fits the decision values of examples with labels y (+1 or -1). An example of weight w
/// counts like w examples; without weights all count once.
PlattParameters FitSigmoid(std::span<const double> decisions, std::span<const double> y,
                           std::span<const double> weights = {});

/// Returns the probability of the positive class, without overflow.
double PlattProbability(const PlattParameters& platt, double decision);

/// Returns the decision value of every example from a solver that did not see its fold. `order` lists the examples
/// independently of the layout of the problem; the folds are a shuffle of it. A training part with only one class
/// returns +1 or -1 for that class, and an empty one 0 (LIBSVM's rule). `start` has the multipliers and products of the
/// solution of the whole problem; it only saves time.
std::vector<double> CrossValidatedDecisions(const SmoProblem& problem, const SmoOptions& options, const SmoStart& start,
                                            std::span<const std::uint32_t> order, std::uint64_t seed,
                                            std::uint64_t stream);

// Class probabilities from pairwise probabilities: the second method of Wu, Lin and Weng (2004).

/// `pairwise`(i, j) = P(i | i or j), in (0, 1), with pairwise(j, i) = 1 - pairwise(i, j); the diagonal is not read.
/// Returns the p >= 0 with sum 1 that minimises sum over i != j of (pairwise(j, i) p_i - pairwise(i, j) p_j)^2. With
/// two classes this is the pairwise probability itself. Thread-safe.
std::vector<double> CoupleProbabilities(ConstMatrixView pairwise);

}  // namespace fulcrum::classify
