// Compares settings of classifiers by cross-validation on the labeled examples.
//
// Every setting is judged by the log loss of held-out examples: accuracy alone has too many ties with a few dozen
// labels. Scores become probabilities by one temperature per setting, fitted on the held-out scores themselves. The
// folds are stratified, the same for all settings, and determined by the seed. Settings run in parallel under oneTBB;
// the result does not depend on the number of threads. Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stages/classify/classifier.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"

namespace fulcrum::classify {

/// One setting: a classifier, a kernel, by its matrix, and the penalty.
struct Trial {
  const ClassifierEntry* classifier = nullptr;
  std::size_t gram = 0;  ///< index of the kernel's matrix
  double c = 1;
};

struct TrialScore {
  double log_loss = 0;  ///< mean over the held-out examples
  double accuracy = 0;  ///< of the held-out examples
};

/// Fold of each example, from 0: every class is spread evenly over the folds.
std::vector<std::size_t> StratifiedFolds(std::span<const ClassIndex> labels, std::size_t folds, std::uint64_t seed);

/// Scores of all trials, in their order. `grams` are the kernel matrices of the labeled examples, `labels` their
/// classes in the same order, of which at least two differ.
std::vector<TrialScore> CrossValidate(std::span<const ConstMatrixView> grams, std::span<const Trial> trials,
                                      std::span<const ClassIndex> labels, std::uint64_t seed);

/// The factor of the scores with which their softmax has the smallest log loss on held-out examples. The folds follow
/// the order of examples.positions.
double FitTemperature(const ClassifierEntry& classifier, const GramExamples& examples, std::uint64_t seed);

}  // namespace fulcrum::classify
