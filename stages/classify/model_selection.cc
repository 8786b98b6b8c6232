#include "stages/classify/model_selection.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "stages/core/parallel.h"
#include "stages/core/random.h"

namespace fulcrum::classify {
namespace {

constexpr std::size_t kFolds = 5;
constexpr double kTemperatures[] = {0.125, 0.25, 0.5, 1, 2, 4};  // times the usual one
// No example counts for more than this, so that one mislabeled example does not decide.
constexpr double kLeastProbability = 1e-4;
// Far from the usual temperature a fit is more likely to be chance.
constexpr double kTemperaturePenalty = 0.02;

/// The classes that occur, and each example's place among them.
struct Classes {
  explicit Classes(std::span<const ClassIndex> labels) {
    std::map<ClassIndex, std::size_t> found;
    for (const ClassIndex label : labels) found.emplace(label, 0);
    for (auto& [label, place] : found) place = count++;
    for (const ClassIndex label : labels) of_example.push_back(found[label]);
  }
  std::size_t count = 0;
  std::vector<std::size_t> of_example;
};

/// Scores of every example from a classifier that did not see its fold: in the order of `examples`, by class.
Matrix<double> HeldOutScores(const ClassifierEntry& classifier, const GramExamples& examples,
                             std::span<const std::size_t> folds) {
  Matrix<double> scores(examples.positions.size(), examples.class_count);
  for (std::size_t fold = 0; fold < kFolds; ++fold) {
    ThrowIfStopRequested();
    std::vector<std::uint32_t> seen, held_out;
    std::vector<std::size_t> rows;
    for (std::size_t i = 0; i < folds.size(); ++i) {
      (folds[i] == fold ? held_out : seen).push_back(examples.positions[i]);
      if (folds[i] == fold) rows.push_back(i);
    }
    if (held_out.empty()) continue;
    GramExamples part = examples;
    part.positions = seen;
    const Matrix<double> found = classifier.score(part, held_out);
    for (std::size_t t = 0; t < rows.size(); ++t) std::ranges::copy(found.row(t), scores.row(rows[t]).begin());
  }
  return scores;
}

/// Mean log loss of the softmax of temperature * scores.
double LogLoss(ConstMatrixView scores, double temperature, std::span<const std::size_t> truth) {
  double total = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const std::span<const double> row = scores.row(i);
    const double largest = *std::ranges::max_element(row);
    double sum = 0;
    for (const double score : row) sum += std::exp(temperature * (score - largest));
    const double probability = std::exp(temperature * (row[truth[i]] - largest)) / sum;
    total -= std::log(std::max(probability, kLeastProbability));
  }
  return total / static_cast<double>(truth.size());
}

struct Temperature {
  double value = 1;
  double log_loss = std::numeric_limits<double>::infinity();  // with the penalty
};

Temperature BestTemperature(ConstMatrixView scores, double usual, std::span<const std::size_t> truth) {
  Temperature best;
  for (const double factor : kTemperatures) {
    const double penalty = kTemperaturePenalty * std::abs(std::log2(factor));
    const double loss = LogLoss(scores, factor * usual, truth) + penalty;
    if (loss < best.log_loss) best = {factor * usual, loss};
  }
  return best;
}

TrialScore Judge(ConstMatrixView scores, double usual_temperature, std::span<const std::size_t> truth) {
  TrialScore result{.log_loss = BestTemperature(scores, usual_temperature, truth).log_loss};
  std::size_t right = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const std::span<const double> row = scores.row(i);
    right += static_cast<std::size_t>(std::ranges::max_element(row) - row.begin()) == truth[i] ? 1 : 0;
  }
  result.accuracy = static_cast<double>(right) / static_cast<double>(truth.size());
  return result;
}

}  // namespace

std::vector<std::size_t> StratifiedFolds(std::span<const ClassIndex> labels, std::size_t folds, std::uint64_t seed) {
  std::map<ClassIndex, std::vector<std::size_t>> members;
  for (std::size_t i = 0; i < labels.size(); ++i) members[labels[i]].push_back(i);
  std::vector<std::size_t> fold_of(labels.size());
  std::size_t next = 0;  // continues from class to class, so that small classes do not all start in the first fold
  for (auto& [label, examples] : members) {
    Random random = Random::Fork(seed, static_cast<std::uint64_t>(label));
    random.Shuffle(std::span(examples));
    for (const std::size_t example : examples) fold_of[example] = next++ % folds;
  }
  return fold_of;
}

std::vector<TrialScore> CrossValidate(std::span<const ConstMatrixView> grams, std::span<const Trial> trials,
                                      std::span<const ClassIndex> labels, std::uint64_t seed) {
  const Classes classes(labels);
  const std::vector<std::size_t> folds = StratifiedFolds(labels, kFolds, seed);
  std::vector<std::uint32_t> all(labels.size());
  std::iota(all.begin(), all.end(), 0u);
  std::vector<TrialScore> scores(trials.size());
  ParallelForBlocks(trials.size(), 1, [&](std::size_t i, std::size_t) {
    const Trial& trial = trials[i];
    const std::vector<double> costs(classes.count, trial.c);
    const Matrix<double> held_out =
        HeldOutScores(*trial.classifier, {grams[trial.gram], all, classes.of_example, classes.count, costs}, folds);
    scores[i] = Judge(held_out.view(), trial.classifier->usual_temperature, classes.of_example);
  });
  return scores;
}

double FitTemperature(const ClassifierEntry& classifier, const GramExamples& examples, std::uint64_t seed) {
  std::vector<ClassIndex> labels;
  std::vector<std::size_t> truth;
  for (const std::uint32_t position : examples.positions) {
    truth.push_back(examples.classes[position]);
    labels.push_back(static_cast<ClassIndex>(truth.back()));
  }
  const Matrix<double> scores = HeldOutScores(classifier, examples, StratifiedFolds(labels, kFolds, seed));
  return BestTemperature(scores.view(), classifier.usual_temperature, truth).value;
}

}  // namespace fulcrum::classify
