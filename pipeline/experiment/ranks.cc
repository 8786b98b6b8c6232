#include "pipeline/experiment/ranks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace fulcrum::pipeline {
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
      if (by_task) {
        for (auto& [strategy, area] : block) area /= static_cast<double>(counts[strategy]);
      }
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

}  // namespace fulcrum::pipeline
