#include "stages/classify/model_selection.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "stages/classify/smo_solver.h"
#include "stages/core/parallel.h"
#include "stages/core/random.h"

namespace fulcrum::classify {
namespace {

constexpr std::size_t kFolds = 5;
constexpr double kTemperatures[] = {0.25, 0.5, 1, 2, 4};
// No example counts for more than this, so that one mislabeled example does not decide.
constexpr double kLeastProbability = 1e-4;
// Far from the usual temperature of 2 a fit is more likely to be chance.
constexpr double kTemperaturePenalty = 0.02;
// The score of a class without training examples.
constexpr double kAbsent = -50;

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

/// Held-out scores of one setting: examples x classes.
class HeldOutScores {
 public:
  HeldOutScores(ConstMatrixView gram, double c, const Classes& classes, std::span<const std::size_t> folds)
      : gram_(gram), c_(c), classes_(classes), folds_(folds), scores_(folds.size(), classes.count) {}

  Matrix<double> Compute() {
    for (std::size_t fold = 0; fold < kFolds; ++fold) {
      ThrowIfStopRequested();
      ScoreFold(fold);
    }
    return std::move(scores_);
  }

 private:
  void ScoreFold(std::size_t fold) {
    std::vector<std::vector<std::uint32_t>> members(classes_.count);
    std::vector<std::uint32_t> held_out;
    for (std::uint32_t i = 0; i < folds_.size(); ++i) {
      if (folds_[i] == fold) {
        held_out.push_back(i);
      } else {
        members[classes_.of_example[i]].push_back(i);
      }
    }
    votes_ = Matrix<double>::Zero(held_out.size(), classes_.count);
    sums_ = Matrix<double>::Zero(held_out.size(), classes_.count);
    for (std::size_t a = 0; a < classes_.count; ++a) {
      for (std::size_t b = a + 1; b < classes_.count; ++b) {
        if (!members[a].empty() && !members[b].empty()) AddPair(a, b, members, held_out);
      }
    }
    WriteScores(members, held_out);
  }

  /// Trains one pair of classes and adds its vote and decision value for every held-out example.
  void AddPair(std::size_t a, std::size_t b, const std::vector<std::vector<std::uint32_t>>& members,
               std::span<const std::uint32_t> held_out) {
    std::vector<std::uint32_t> positions = members[a];
    positions.insert(positions.end(), members[b].begin(), members[b].end());
    std::vector<double> y(positions.size(), -1.0);
    std::fill_n(y.begin(), members[a].size(), 1.0);
    const std::vector<double> bounds(positions.size(), c_);
    const SmoSolution solution = SolveSmo({gram_, positions, y, bounds}, {});
    for (std::size_t t = 0; t < held_out.size(); ++t) {
      const std::span<const double> row = gram_.row(held_out[t]);
      double decision = -solution.rho;
      for (std::size_t s = 0; s < positions.size(); ++s) decision += y[s] * solution.alpha[s] * row[positions[s]];
      votes_(t, decision > 0 ? a : b) += 1;
      sums_(t, a) += decision;
      sums_(t, b) -= decision;
    }
  }

  /// With two classes the decision value; with more the votes, and decision values between equal numbers of votes.
  void WriteScores(const std::vector<std::vector<std::uint32_t>>& members, std::span<const std::uint32_t> held_out) {
    const auto present = std::ranges::count_if(members, [](const auto& rows) { return !rows.empty(); });
    for (std::size_t t = 0; t < held_out.size(); ++t) {
      const std::span<double> row = scores_.row(held_out[t]);
      for (std::size_t k = 0; k < classes_.count; ++k) {
        const double sum = sums_(t, k);
        row[k] = members[k].empty() ? kAbsent
                 : present == 2     ? std::clamp(sum, kAbsent, -kAbsent)
                                    : votes_(t, k) + sum / (3 * (std::abs(sum) + 1));
      }
    }
  }

  ConstMatrixView gram_;
  double c_;
  const Classes& classes_;
  std::span<const std::size_t> folds_;
  Matrix<double> scores_;
  Matrix<double> votes_, sums_;  // of the fold's held-out examples
};

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

TrialScore Judge(ConstMatrixView scores, std::span<const std::size_t> truth) {
  TrialScore result{.log_loss = std::numeric_limits<double>::infinity()};
  for (const double temperature : kTemperatures) {
    const double penalty = kTemperaturePenalty * std::abs(std::log2(temperature) - 1);
    result.log_loss = std::min(result.log_loss, LogLoss(scores, temperature, truth) + penalty);
  }
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
  std::vector<TrialScore> scores(trials.size());
  ParallelForBlocks(trials.size(), 1, [&](std::size_t i, std::size_t) {
    const Trial& trial = trials[i];
    const Matrix<double> held_out = HeldOutScores(grams[trial.gram], trial.c, classes, folds).Compute();
    scores[i] = Judge(held_out.view(), classes.of_example);
  });
  return scores;
}

}  // namespace fulcrum::classify
