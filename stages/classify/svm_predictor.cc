#include <algorithm>
#include <limits>
#include <numeric>

#include "absl/status/status.h"
#include "stages/classify/svm_model.h"
#include "stages/classify/svm_trainer.h"
#include "stages/core/parallel.h"

namespace fulcrum::classify {
namespace {

constexpr std::size_t kRowsAtOnce = 512;
// As in LIBSVM: with a pairwise probability of exactly 0 or 1 the coupling would have no solution.
constexpr double kLeastProbability = 1e-7;

/// Couples the probabilities of one row over the classes that are present.
class RowProbabilities {
 public:
  explicit RowProbabilities(const SvmModel& model)
      : model_(model),
        classes_(model.classes_present()),
        pairwise_(Matrix<double>::Zero(classes_.size(), classes_.size())) {}

  void Compute(std::span<const double> decisions, std::span<double> out) {
    std::fill(out.begin(), out.end(), 0.0);
    for (std::size_t p = 0; p < model_.pairs.size(); ++p) {
      const SvmPair& pair = model_.pairs[p];
      const double first =
          std::clamp(PlattProbability(pair.platt, decisions[p]), kLeastProbability, 1 - kLeastProbability);
      pairwise_(SlotOf(pair.first), SlotOf(pair.second)) = first;
      pairwise_(SlotOf(pair.second), SlotOf(pair.first)) = 1 - first;
    }
    const std::vector<double> coupled = CoupleProbabilities(pairwise_.view());
    for (std::size_t slot = 0; slot < classes_.size(); ++slot)
      out[static_cast<std::size_t>(classes_[slot])] = coupled[slot];
  }

 private:
  std::size_t SlotOf(ClassIndex class_index) const {
    return static_cast<std::size_t>(std::lower_bound(classes_.begin(), classes_.end(), class_index) - classes_.begin());
  }

  const SvmModel& model_;
  std::vector<ClassIndex> classes_;
  Matrix<double> pairwise_;
};

}  // namespace

void DecisionValues(const SvmModel& model, const kernel::Features& support_features, const kernel::Features& features,
                    std::span<const RowIndex> rows, MutableMatrixView out) {
  std::vector<double> offsets(model.pairs.size());
  for (std::size_t p = 0; p < offsets.size(); ++p) offsets[p] = -model.pairs[p].rho;
  ComputeKernelProduct(model.kernel, {&support_features, model.support_rows, model.coefficients.view()}, features, rows,
                       offsets,
                       /*accumulate=*/false, out);
}

Matrix<double> DecisionValues(const SvmModel& model, const kernel::Features& support_features,
                              const kernel::Features& features) {
  RowList rows(features.rows());
  std::iota(rows.begin(), rows.end(), RowIndex{0});
  Matrix<double> decisions(rows.size(), model.pairs.size());
  DecisionValues(model, support_features, features, rows, decisions.view());
  return decisions;
}

ClassIndex VoteClass(const SvmModel& model, std::span<const double> decisions) {
  ClassIndex winner = 0;
  VoteClasses(model, {decisions.data(), 1, decisions.size()}, {&winner, 1});
  return winner;
}

void VoteClasses(const SvmModel& model, ConstMatrixView decisions, std::span<ClassIndex> classes) {
  std::vector<std::size_t> votes(model.class_count);
  for (std::size_t i = 0; i < classes.size(); ++i) {
    std::ranges::fill(votes, 0);
    for (std::size_t p = 0; p < model.pairs.size(); ++p) {
      const ClassIndex winner = decisions(i, p) > 0 ? model.pairs[p].first : model.pairs[p].second;
      ++votes[static_cast<std::size_t>(winner)];
    }
    classes[i] = static_cast<ClassIndex>(std::ranges::max_element(votes) - votes.begin());
  }
}

std::vector<ClassIndex> VoteClasses(const SvmModel& model, ConstMatrixView decisions) {
  std::vector<ClassIndex> classes(decisions.rows());
  ParallelForBlocks(classes.size(), kRowsAtOnce, [&](std::size_t first, std::size_t count) {
    VoteClasses(model, decisions.Rows(first, count), std::span(classes).subspan(first, count));
  });
  return classes;
}

void VoteMargins(const SvmModel& model, ConstMatrixView decisions, std::span<const ClassIndex> classes,
                 std::span<double> margins) {
  std::ranges::fill(margins, std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i < classes.size(); ++i) {
    for (std::size_t p = 0; p < model.pairs.size(); ++p) {
      const SvmPair& pair = model.pairs[p];
      if (pair.first != classes[i] && pair.second != classes[i]) continue;
      const double advantage = pair.first == classes[i] ? decisions(i, p) : -decisions(i, p);
      margins[i] = std::min(margins[i], advantage);
    }
  }
}

absl::StatusOr<Matrix<double>> Probabilities(const SvmModel& model, ConstMatrixView decisions) {
  if (!model.has_probabilities()) {
    return absl::FailedPreconditionError(
        "the SVM has no probability parameters; call SvmTrainer::FitProbabilities after training");
  }
  Matrix<double> probabilities(decisions.rows(), model.class_count);
  ParallelForBlocks(decisions.rows(), kRowsAtOnce, [&](std::size_t first, std::size_t count) {
    RowProbabilities row(model);
    for (std::size_t i = first; i < first + count; ++i) row.Compute(decisions.row(i), probabilities.row(i));
  });
  return probabilities;
}

}  // namespace fulcrum::classify
