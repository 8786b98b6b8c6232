// Compares settings of classifiers by cross-validation on the labeled examples.
//
// Every setting is judged by the log loss of held-out examples: accuracy alone has too many ties with a few dozen
// labels. Scores become probabilities by one temperature per setting, fitted on the held-out scores themselves. The
// folds are stratified, the same for all settings, and determined by the seed; with few labels the examples are divided
// into folds several times, because a single division is chance. Settings run in parallel under oneTBB;
// the result does not depend on the number of threads. Pure functions, thread-safe.
#pragma once

#include <array>
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
  std::span<const double> class_weights = {};  ///< factors of c by class; empty: all are 1
};

struct TrialScore {
  double log_loss = 0;  ///< mean over the held-out examples, by their weights
  double accuracy = 0;  ///< of the held-out examples, by their weights
};

/// Fold of each example, from 0: every class is spread evenly over the folds.
std::vector<std::size_t> StratifiedFolds(std::span<const ClassIndex> labels, std::size_t folds, std::uint64_t seed);

/// Scores of all trials, in their order. `grams` are the kernel matrices of the labeled examples, `labels` their
/// classes in the same order, of which at least two differ. `weights` of the examples; empty: all weigh 1.
std::vector<TrialScore> CrossValidate(std::span<const ConstMatrixView> grams, std::span<const Trial> trials,
                                      std::span<const ClassIndex> labels, std::uint64_t seed,
                                      std::span<const double> weights = {});

/// Factors of the penalty, by class from 0 to the largest label, that give classes with few labels more weight: with
/// exponent 1 all classes have the same total weight, with 0 all examples. Rounded to half powers of two, so that they
/// stay the same while labels are added. Classes without labels have 1.
std::vector<double> BalancingWeights(std::span<const ClassIndex> labels, double exponent);

/// The parts of a setting, such as its normalisation, its kernel and its penalty, each a number.
using SettingParts = std::array<std::size_t, 3>;

/// The log loss of the shares of the classes, which is what a classifier has that knows nothing else.
double ChanceLoss(std::span<const ClassIndex> labels);

/// Losses moved towards the sum of what the parts of each setting do on average over all settings, half of the way with
/// up to 100 labels and less with more. The smallest of many noisy losses is small by chance; a part that is good in
/// many settings is not. In these averages no loss is above `largest`, so that a part does not look bad because it was
/// combined with one that is hopeless.
std::vector<double> ShrinkToParts(std::span<const double> losses, std::span<const SettingParts> parts,
                                  std::size_t labels, double largest);

/// The factor of the scores with which their softmax has the smallest log loss on held-out examples. The folds follow
/// the order of examples.positions.
double FitTemperature(const ClassifierEntry& classifier, const GramExamples& examples, std::uint64_t seed);

/// The probabilities of each example's classes, examples x class_count, from classifiers that did not see it.
Matrix<double> HeldOutProbabilities(const ClassifierEntry& classifier, const GramExamples& examples,
                                    std::uint64_t seed);

}  // namespace fulcrum::classify
