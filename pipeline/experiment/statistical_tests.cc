#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "pipeline/experiment/experiment.h"

namespace fulcrum::pipeline {
namespace {

/// The continued fraction of the incomplete beta function, by Lentz's method (Numerical Recipes 6.4).
double BetaFraction(double a, double b, double x) {
  constexpr int kMostSteps = 500;
  constexpr double kTiny = 1e-300;
  const auto away_from_zero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1;
  double d = 1 / away_from_zero(1 - (a + b) * x / (a + 1));
  double fraction = d;
  for (int m = 1; m <= kMostSteps; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / away_from_zero(1 + even * d);
    c = away_from_zero(1 + even / c);
    fraction *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / away_from_zero(1 + odd * d);
    c = away_from_zero(1 + odd / c);
    fraction *= d * c;
    if (std::abs(d * c - 1) < 1e-15) break;
  }
  return fraction;
}

/// I_x(a, b)
double IncompleteBeta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
  // The fraction converges fast on this side of the mean only.
  if (x < (a + 1) / (a + b + 2)) return front * BetaFraction(a, b, x) / a;
  return 1 - front * BetaFraction(b, a, 1 - x) / b;
}

struct Moments {
  double mean = 0;
  double deviation = 0;  // n - 1
};

Moments MomentsOf(std::span<const double> values) {
  Moments moments;
  const auto count = static_cast<double>(values.size());
  for (const double value : values) moments.mean += value / count;
  double squares = 0;
  for (const double value : values) squares += (value - moments.mean) * (value - moments.mean);
  moments.deviation = values.size() > 1 ? std::sqrt(squares / (count - 1)) : 0;
  return moments;
}

}  // namespace

double StudentCdf(double t, double degrees_of_freedom) {
  if (std::isinf(t)) return t > 0 ? 1 : 0;
  const double tail =
      IncompleteBeta(degrees_of_freedom / 2, 0.5, degrees_of_freedom / (degrees_of_freedom + t * t)) / 2;
  return t > 0 ? 1 - tail : tail;
}

double StudentQuantile(double probability, double degrees_of_freedom) {
  assert(probability > 0 && probability < 1);
  if (probability < 0.5) return -StudentQuantile(1 - probability, degrees_of_freedom);
  double low = 0, high = 1;
  while (StudentCdf(high, degrees_of_freedom) < probability) high *= 2;
  for (int step = 0; step < 200 && high - low > 1e-14 * high; ++step) {
    const double middle = (low + high) / 2;
    (StudentCdf(middle, degrees_of_freedom) < probability ? low : high) = middle;
  }
  return (low + high) / 2;
}

Verdict ComparePaired(std::span<const double> a, std::span<const double> b, double level) {
  assert(a.size() == b.size());
  if (a.size() < 2) return Verdict::kTie;
  std::vector<double> differences(a.size());
  std::ranges::transform(a, b, differences.begin(), std::minus<>());
  if (std::ranges::adjacent_find(differences, std::not_equal_to<>()) == differences.end()) {
    if (differences[0] == 0) return Verdict::kTie;
    return differences[0] > 0 ? Verdict::kWin : Verdict::kLoss;
  }
  const Moments moments = MomentsOf(differences);
  const auto count = static_cast<double>(differences.size());
  const double t = moments.mean / (moments.deviation / std::sqrt(count));
  // P(T >= |t|): the chance of so large a difference in this direction if there is none.
  if (1 - StudentCdf(std::abs(t), count - 1) >= level) return Verdict::kTie;
  return t > 0 ? Verdict::kWin : Verdict::kLoss;
}

MeanInterval MeanWithInterval(std::span<const double> values, double confidence) {
  std::vector<double> known;
  std::ranges::copy_if(values, std::back_inserter(known), [](double value) { return !std::isnan(value); });
  if (known.empty()) return {.mean = std::nan("")};
  const Moments moments = MomentsOf(known);
  if (known.size() < 2) return {.mean = moments.mean};
  const auto count = static_cast<double>(known.size());
  return {.mean = moments.mean,
          .half_width = StudentQuantile(0.5 + confidence / 2, count - 1) * moments.deviation / std::sqrt(count)};
}

namespace {

// Fewer tasks than this give a test without power.
constexpr std::size_t kFewestTasks = 5;

// Quantiles of the studentized range over the square root of 2, at 0.05, for 2 to 20 strategies.
constexpr double kNemenyi[] = {1.959964, 2.343701, 2.569032, 2.727774, 2.849705, 2.948320, 3.030879,
                               3.101730, 3.163684, 3.218654, 3.268004, 3.312739, 3.353618, 3.391230,
                               3.426041, 3.458425, 3.488685, 3.517073, 3.543799};

/// The area of every strategy in one block.
using RankBlock = std::map<std::string, double>;

std::vector<RankBlock> RankBlocksOf(const CurveSet& curves, Metric metric, bool by_task) {
  std::vector<RankBlock> blocks;
  for (const std::string& task : curves.Tasks()) {
    std::map<std::size_t, RankBlock> of_task;  // by run; all in one if blocks are tasks
    std::map<std::string, std::size_t> counts;
    for (const std::string& strategy : curves.StrategiesOf(task)) {
      for (const Curve* curve : curves.Of(task, strategy)) {
        of_task[by_task ? 0 : curve->run][strategy] += AreaUnder(*curve, curves.LastRound(task), metric);
        ++counts[strategy];
      }
    }
    for (auto& [run, block] : of_task) {
      for (auto& [strategy, area] : block) area /= by_task ? static_cast<double>(counts[strategy]) : 1;
      blocks.push_back(std::move(block));
    }
  }
  return blocks;
}

/// Names in every block, in the order of the curves.
std::vector<std::string> RankedStrategies(const CurveSet& curves, const std::vector<RankBlock>& blocks) {
  std::vector<std::string> names;
  for (const std::string& task : curves.Tasks()) {
    for (const std::string& strategy : curves.StrategiesOf(task)) {
      const bool everywhere =
          std::ranges::all_of(blocks, [&](const RankBlock& block) { return block.contains(strategy); });
      if (everywhere && std::ranges::find(names, strategy) == names.end()) names.push_back(strategy);
    }
  }
  return names;
}

/// One plus the strategies that are better, plus half of the others that are equal.
double RankIn(const RankBlock& block, const std::vector<std::string>& names, const std::string& strategy) {
  const double own = block.at(strategy);
  double rank = 0.5;  // the strategy itself is among the equal ones
  for (const std::string& other : names) {
    const double area = block.at(other);
    rank += area > own ? 1 : area == own ? 0.5 : 0;
  }
  return rank;
}

}  // namespace

std::optional<RankComparison> CompareRanks(const CurveSet& curves, Metric metric) {
  RankComparison result{.blocks_are_tasks = curves.Tasks().size() >= kFewestTasks};
  const std::vector<RankBlock> blocks = RankBlocksOf(curves, metric, result.blocks_are_tasks);
  const std::vector<std::string> names = RankedStrategies(curves, blocks);
  if (blocks.size() < 2 || names.size() < 2 || names.size() - 2 >= std::size(kNemenyi)) return std::nullopt;
  result.blocks = blocks.size();
  for (const std::string& name : names) {
    double sum = 0;
    for (const RankBlock& block : blocks) sum += RankIn(block, names, name);
    result.ranks.push_back({name, sum / static_cast<double>(blocks.size())});
  }
  std::ranges::stable_sort(result.ranks, {}, &StrategyRank::mean_rank);
  const auto count = static_cast<double>(names.size());
  result.critical_difference =
      kNemenyi[names.size() - 2] * std::sqrt(count * (count + 1) / (6 * static_cast<double>(blocks.size())));
  return result;
}

std::vector<std::pair<std::size_t, std::size_t>> RankComparison::Groups() const {
  std::vector<std::pair<std::size_t, std::size_t>> groups;
  for (std::size_t first = 0, reached = 0; first < ranks.size(); ++first) {
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1].mean_rank - ranks[first].mean_rank <= critical_difference) ++last;
    if (last > first && (groups.empty() || last > reached)) groups.emplace_back(first, last);
    reached = std::max(reached, last);
  }
  return groups;
}

double Accuracy(std::span<const ClassIndex> predicted, std::span<const ClassIndex> truth) {
  assert(predicted.size() == truth.size());
  std::size_t right = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) right += predicted[i] == truth[i] ? 1 : 0;
  return truth.empty() ? 0 : static_cast<double>(right) / static_cast<double>(truth.size());
}

double F1Score(std::span<const ClassIndex> predicted, std::span<const ClassIndex> truth, ClassIndex positive) {
  assert(predicted.size() == truth.size());
  std::size_t hits = 0, mistakes = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const bool said = predicted[i] == positive, is = truth[i] == positive;
    hits += said && is ? 1 : 0;
    mistakes += said != is ? 1 : 0;
  }
  const double weight = 2 * static_cast<double>(hits);
  return hits + mistakes == 0 ? 0 : weight / (weight + static_cast<double>(mistakes));
}

double MacroF1Score(std::span<const ClassIndex> predicted, std::span<const ClassIndex> truth) {
  const std::set<ClassIndex> classes(truth.begin(), truth.end());
  double sum = 0;
  for (const ClassIndex index : classes) sum += F1Score(predicted, truth, index);
  return classes.empty() ? 0 : sum / static_cast<double>(classes.size());
}

double CalibrationError(ConstMatrixView probabilities, std::span<const ClassIndex> predicted,
                        std::span<const ClassIndex> truth) {
  constexpr std::size_t kBins = 10;
  double confidence[kBins] = {}, right[kBins] = {};
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const double p = probabilities(i, static_cast<std::size_t>(predicted[i]));
    const std::size_t bin = std::min(static_cast<std::size_t>(p * kBins), kBins - 1);
    confidence[bin] += p;
    right[bin] += predicted[i] == truth[i] ? 1 : 0;
  }
  double error = 0;
  for (std::size_t bin = 0; bin < kBins; ++bin) error += std::abs(confidence[bin] - right[bin]);
  return truth.empty() ? 0 : error / static_cast<double>(truth.size());
}

}  // namespace fulcrum::pipeline
