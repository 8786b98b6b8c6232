#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "stages/classify/classifier.h"
#include "stages/core/parallel.h"
#include "stages/core/random.h"

namespace fulcrum::classify {
namespace {

// Examples are divided into folds again until so many were predicted, but not more often than this.
constexpr std::size_t kEnoughPredictions = 200, kMostDivisions = 4;
constexpr double kShrinkage = 0.5, kLabelsToShrink = 100;
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
    for (const auto& [label, place] : found) labels_of.push_back(label);
  }
  std::vector<double> CostsFor(std::span<const double> class_weights) const {
    std::vector<double> costs(count, 1.0);
    for (std::size_t i = 0; i < count && !class_weights.empty(); ++i) {
      costs[i] = class_weights[static_cast<std::size_t>(labels_of[i])];
    }
    return costs;
  }
  std::size_t count = 0;
  std::vector<ClassIndex> labels_of;  // by place
  std::vector<std::size_t> of_example;
};

/// What a classifier that did not see an example's fold says about it.
struct HeldOut {
  HeldOut(std::size_t examples, std::size_t classes) : scores(examples, classes), known(examples, 0) {}

  void Place(const HeldOut& part, std::size_t first) {
    for (std::size_t row = 0; row < part.known.size(); ++row) {
      std::ranges::copy(part.scores.row(row), scores.row(first + row).begin());
      known[first + row] = part.known[row];
    }
  }

  Matrix<double> scores;            // examples x classes
  std::vector<std::uint8_t> known;  // by example: whether the classifier saw others of its class
};

/// One for each of the penalties, in the order of `examples`. `gram_of_fold`, if there are any, replace the matrix.
std::vector<HeldOut> HeldOutScores(const ClassifierEntry& classifier, const GramExamples& examples,
                                   std::span<const std::size_t> folds, std::span<const double> penalties,
                                   std::span<const ConstMatrixView> gram_of_fold = {}) {
  std::vector<HeldOut> result;
  for (std::size_t i = 0; i < penalties.size(); ++i) {
    result.emplace_back(examples.positions.size(), examples.class_count);
  }
  ParallelForBlocks(kLabelFolds, 1, [&](std::size_t fold, std::size_t) {
    ThrowIfStopRequested();
    std::vector<std::uint32_t> seen, held_out;
    std::vector<std::size_t> rows;
    std::vector<std::uint8_t> has_class(examples.class_count, 0);
    for (std::size_t i = 0; i < folds.size(); ++i) {
      const std::uint32_t position = examples.positions[i];
      if (folds[i] != fold) {
        seen.push_back(position);
        has_class[examples.classes[position]] = 1;
      } else {
        held_out.push_back(position);
        rows.push_back(i);
      }
    }
    if (held_out.empty()) return;
    GramExamples part = examples;
    part.positions = seen;
    if (!gram_of_fold.empty()) part.gram = gram_of_fold[fold];
    const std::vector<Matrix<double>> found = classifier.score(part, held_out, penalties);
    for (std::size_t i = 0; i < penalties.size(); ++i) {
      for (std::size_t t = 0; t < rows.size(); ++t) {
        std::ranges::copy(found[i].row(t), result[i].scores.row(rows[t]).begin());
        result[i].known[rows[t]] = has_class[examples.classes[held_out[t]]];
      }
    }
  });
  return result;
}

/// The classes of held-out examples, and how much each counts.
struct Truth {
  std::vector<std::size_t> classes;
  std::vector<double> weights;

  std::size_t size() const { return classes.size(); }
  double TotalWeight() const { return std::accumulate(weights.begin(), weights.end(), 0.0); }
};

/// Mean log loss of the softmax of temperature * scores. An example whose class the classifier did not see is left out:
/// it costs the same with every setting, and at no temperature that is right for the others.
double LogLoss(const HeldOut& held_out, double temperature, const Truth& truth) {
  double total = 0;
  double weight = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    if (held_out.known[i] == 0) continue;
    weight += truth.weights[i];
    const std::span<const double> row = held_out.scores.row(i);
    const double largest = *std::ranges::max_element(row);
    double sum = 0;
    for (const double score : row) sum += std::exp(temperature * (score - largest));
    const double probability = std::exp(temperature * (row[truth.classes[i]] - largest)) / sum;
    total -= truth.weights[i] * std::log(std::max(probability, kLeastProbability));
  }
  return weight == 0 ? 0 : total / weight;
}

struct Temperature {
  double value = 1;
  double log_loss = std::numeric_limits<double>::infinity();  // with the penalty
};

Temperature BestTemperature(const HeldOut& held_out, double usual, const Truth& truth) {
  Temperature best;
  for (const double factor : kTemperatures) {
    const double penalty = kTemperaturePenalty * std::abs(std::log2(factor));
    const double loss = LogLoss(held_out, factor * usual, truth) + penalty;
    if (loss < best.log_loss) best = {factor * usual, loss};
  }
  return best;
}

TrialScore Judge(const HeldOut& held_out, double usual_temperature, const Truth& truth) {
  TrialScore result{.log_loss = BestTemperature(held_out, usual_temperature, truth).log_loss};
  double right = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const std::span<const double> row = held_out.scores.row(i);
    const auto best = static_cast<std::size_t>(std::ranges::max_element(row) - row.begin());
    right += best == truth.classes[i] ? truth.weights[i] : 0;
  }
  result.accuracy = right / truth.TotalWeight();
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

std::vector<std::vector<std::size_t>> LabelFolds(std::span<const ClassIndex> labels, std::uint64_t seed) {
  const std::size_t divisions = std::clamp<std::size_t>(kEnoughPredictions / labels.size(), 1, kMostDivisions);
  std::vector<std::vector<std::size_t>> folds;
  for (std::size_t i = 0; i < divisions; ++i) {
    folds.push_back(StratifiedFolds(labels, kLabelFolds, i == 0 ? seed : Random::Fork(seed, i).Next()));
  }
  return folds;
}

std::vector<TrialScore> CrossValidate(std::span<const ConstMatrixView> grams, std::span<const Trial> trials,
                                      std::span<const ClassIndex> labels, std::uint64_t seed,
                                      std::span<const double> weights) {
  const Classes classes(labels);
  const std::vector<std::vector<std::size_t>> folds = LabelFolds(labels, seed);
  const std::size_t divisions = folds.size();
  Truth truth;
  for (std::size_t i = 0; i < divisions; ++i) {
    truth.classes.insert(truth.classes.end(), classes.of_example.begin(), classes.of_example.end());
    truth.weights.insert(truth.weights.end(), weights.begin(), weights.end());
  }
  if (weights.empty()) truth.weights.assign(truth.classes.size(), 1.0);
  std::vector<std::uint32_t> all(labels.size());
  std::iota(all.begin(), all.end(), 0u);
  // Trials that differ only in the penalty follow each other, and share what their classifiers compute.
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    const bool same = i > 0 && trials[i].gram == trials[i - 1].gram &&
                      trials[i].classifier == trials[i - 1].classifier &&
                      std::ranges::equal(trials[i].class_weights, trials[i - 1].class_weights);
    if (!same) starts.push_back(i);
  }
  std::vector<TrialScore> scores(trials.size());
  ParallelForBlocks(starts.size(), 1, [&](std::size_t group, std::size_t) {
    const std::size_t first = starts[group], end = group + 1 < starts.size() ? starts[group + 1] : trials.size();
    std::vector<double> penalties;
    std::vector<HeldOut> held_out;
    for (std::size_t i = first; i < end; ++i) {
      penalties.push_back(trials[i].c);
      held_out.emplace_back(truth.size(), classes.count);
    }
    const ClassifierEntry& classifier = *trials[first].classifier;
    const std::vector<double> costs = classes.CostsFor(trials[first].class_weights);
    const GramExamples examples{grams[trials[first].gram], all, classes.of_example, classes.count, costs, weights};
    for (std::size_t division = 0; division < divisions; ++division) {
      std::span<const ConstMatrixView> of_folds;
      if (trials[first].gram_per_fold)
        of_folds = grams.subspan(trials[first].gram + division * kLabelFolds, kLabelFolds);
      const std::vector<HeldOut> found = HeldOutScores(classifier, examples, folds[division], penalties, of_folds);
      for (std::size_t i = 0; i < found.size(); ++i) held_out[i].Place(found[i], division * labels.size());
    }
    for (std::size_t i = first; i < end; ++i) {
      scores[i] = Judge(held_out[i - first], classifier.usual_temperature, truth);
    }
  });
  return scores;
}

std::vector<double> BalancingWeights(std::span<const ClassIndex> labels, double exponent) {
  std::map<ClassIndex, double> counts;
  for (const ClassIndex label : labels) counts[label] += 1;
  const double mean = static_cast<double>(labels.size()) / static_cast<double>(counts.size());
  std::vector<double> weights(static_cast<std::size_t>(counts.rbegin()->first) + 1, 1.0);
  for (const auto& [label, count] : counts) {
    const double half_powers = std::round(2 * exponent * std::log2(mean / count));
    weights[static_cast<std::size_t>(label)] = std::exp2(half_powers / 2);
  }
  return weights;
}

double ChanceLoss(std::span<const ClassIndex> labels) {
  std::map<ClassIndex, double> counts;
  for (const ClassIndex label : labels) counts[label] += 1;
  double loss = 0;
  for (const auto& [label, count] : counts) {
    const double share = count / static_cast<double>(labels.size());
    loss -= share * std::log(share);
  }
  return loss;
}

std::vector<double> ShrinkToParts(std::span<const double> losses, std::span<const SettingParts> parts,
                                  std::size_t labels, double largest) {
  std::array<std::map<std::size_t, std::pair<double, double>>, std::tuple_size_v<SettingParts>> sums;  // and counts
  double total = 0;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const double loss = std::min(losses[i], largest);
    total += loss;
    for (std::size_t part = 0; part < sums.size(); ++part) {
      auto& [sum, count] = sums[part][parts[i][part]];
      sum += loss;
      count += 1;
    }
  }
  const double mean = total / static_cast<double>(losses.size());
  const double share = kShrinkage * std::min(1.0, kLabelsToShrink / static_cast<double>(labels));
  std::vector<double> shrunk;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    double expected = mean;
    for (std::size_t part = 0; part < sums.size(); ++part) {
      const auto& [sum, count] = sums[part].at(parts[i][part]);
      expected += sum / count - mean;
    }
    shrunk.push_back((1 - share) * losses[i] + share * expected);
  }
  return shrunk;
}

namespace {

/// Held-out scores and the temperature that makes them probabilities.
struct CalibratedScores {
  HeldOut held_out;
  double temperature = 1;
};

CalibratedScores Calibrate(const ClassifierEntry& classifier, const GramExamples& examples, std::uint64_t seed) {
  std::vector<ClassIndex> labels;
  Truth truth;
  for (const std::uint32_t position : examples.positions) {
    truth.classes.push_back(examples.classes[position]);
    truth.weights.push_back(examples.WeightOf(position));
    labels.push_back(static_cast<ClassIndex>(truth.classes.back()));
  }
  constexpr double kAsTheyAre[] = {1};
  CalibratedScores found{
      std::move(HeldOutScores(classifier, examples, StratifiedFolds(labels, kLabelFolds, seed), kAsTheyAre).front())};
  found.temperature = BestTemperature(found.held_out, classifier.usual_temperature, truth).value;
  return found;
}

}  // namespace

double FitTemperature(const ClassifierEntry& classifier, const GramExamples& examples, std::uint64_t seed) {
  return Calibrate(classifier, examples, seed).temperature;
}

Matrix<double> HeldOutProbabilities(const ClassifierEntry& classifier, const GramExamples& examples,
                                    std::uint64_t seed) {
  CalibratedScores found = Calibrate(classifier, examples, seed);
  Matrix<double> probabilities = std::move(found.held_out.scores);
  for (std::size_t i = 0; i < probabilities.rows(); ++i) {
    const std::span<double> row = probabilities.row(i);
    const double largest = *std::ranges::max_element(row);
    double sum = 0;
    for (double& value : row) sum += value = std::exp(found.temperature * (value - largest));
    for (double& value : row) value /= sum;
  }
  return probabilities;
}

}  // namespace fulcrum::classify
