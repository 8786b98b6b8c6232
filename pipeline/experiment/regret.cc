#include "pipeline/experiment/regret.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace fulcrum::pipeline {
namespace {

double AreaUnder(const Curve& curve, std::size_t last_round, Metric metric) {
  if (last_round == 0) return ValueOf(curve.points[0], metric);
  double area = 0;
  for (std::size_t round = 0; round < last_round; ++round) {
    area += (ValueOf(curve.points[round], metric) + ValueOf(curve.points[round + 1], metric)) / 2;
  }
  return area / static_cast<double>(last_round);
}

}  // namespace

std::vector<TaskRegret> ComputeRegret(const CurveSet& curves, Metric metric) {
  std::vector<TaskRegret> tasks;
  for (const std::string& task : curves.Tasks()) {
    TaskRegret& result = tasks.emplace_back(TaskRegret{.task = task});
    const std::size_t last_round = curves.LastRound(task);
    double best = 0;
    for (const std::string& strategy : curves.StrategiesOf(task)) {
      const std::vector<const Curve*> runs = curves.Of(task, strategy);
      double sum = 0;
      for (const Curve* curve : runs) sum += AreaUnder(*curve, last_round, metric);
      RegretEntry& entry = result.entries.emplace_back(RegretEntry{.strategy = strategy});
      entry.area = sum / static_cast<double>(runs.size());
      best = std::max(best, entry.area);
    }
    for (RegretEntry& entry : result.entries) {
      entry.regret = best - entry.area;
      entry.share = best > 0 ? entry.regret / best : 0;
    }
  }
  return tasks;
}

std::vector<RegretSummary> SummarizeRegret(const std::vector<TaskRegret>& tasks) {
  std::vector<RegretSummary> summaries;
  std::map<std::string, std::size_t> counts;
  for (const TaskRegret& task : tasks) {
    for (const RegretEntry& entry : task.entries) {
      auto found = std::ranges::find(summaries, entry.strategy, &RegretSummary::strategy);
      if (found == summaries.end()) found = summaries.insert(found, RegretSummary{.strategy = entry.strategy});
      found->mean_share += entry.share;
      found->largest_share = std::max(found->largest_share, entry.share);
      ++counts[entry.strategy];
    }
  }
  for (RegretSummary& summary : summaries) summary.mean_share /= static_cast<double>(counts[summary.strategy]);
  std::ranges::stable_sort(summaries, {}, &RegretSummary::mean_share);
  return summaries;
}

std::string RegretTable(const std::vector<TaskRegret>& tasks) {
  std::string text = "task,strategy,area,regret,share\n";
  for (const TaskRegret& task : tasks) {
    for (const RegretEntry& entry : task.entries) {
      absl::StrAppendFormat(&text, "%s,%s,%.6f,%.6f,%.6f\n", task.task, entry.strategy, entry.area, entry.regret,
                            entry.share);
    }
  }
  return text;
}

}  // namespace fulcrum::pipeline
