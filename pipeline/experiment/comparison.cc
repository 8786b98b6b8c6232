#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "pipeline/experiment/experiment.h"

namespace fulcrum::pipeline {
namespace {

constexpr char kRandom[] = "random";

/// Values of two strategies at a round, over the runs that both have.
struct PairedValues {
  std::vector<double> a;
  std::vector<double> b;
};

PairedValues PairAt(const std::vector<const Curve*>& a, const std::vector<const Curve*>& b, std::size_t round,
                    Metric metric) {
  PairedValues values;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i]->run != b[j]->run) {
      a[i]->run < b[j]->run ? ++i : ++j;
      continue;
    }
    if (round < a[i]->points.size() && round < b[j]->points.size()) {
      values.a.push_back(ValueOf(a[i]->points[round], metric));
      values.b.push_back(ValueOf(b[j]->points[round], metric));
    }
    ++i;
    ++j;
  }
  return values;
}

WtlCounts CountSpan(const std::vector<const Curve*>& subject, const std::vector<const Curve*>& opponent,
                    const RoundSpan& span, Metric metric) {
  WtlCounts counts;
  for (std::size_t round = span.first; round <= span.last; ++round) {
    const PairedValues values = PairAt(subject, opponent, round, metric);
    const Verdict verdict = ComparePaired(values.a, values.b);
    ++(verdict == Verdict::kWin ? counts.win : verdict == Verdict::kLoss ? counts.loss : counts.tie);
  }
  return counts;
}

/// Mean over the rounds of a span of how far `a` is ahead of `b`, in percentage points, one entry per run that both
/// have.
std::vector<double> LeadsByRun(const std::vector<const Curve*>& a, const std::vector<const Curve*>& b,
                               const RoundSpan& span, Metric metric) {
  std::vector<double> leads;
  for (std::size_t round = span.first; round <= span.last; ++round) {
    const PairedValues values = PairAt(a, b, round, metric);
    leads.resize(values.a.size(), 0.0);
    const auto rounds = static_cast<double>(span.last - span.first + 1);
    for (std::size_t i = 0; i < values.a.size(); ++i) leads[i] += 100 * (values.a[i] - values.b[i]) / rounds;
  }
  return leads;
}

std::optional<double> LeadOverRandom(const CurveSet& curves, const WtlCell& cell, const std::string& strategy,
                                     Metric metric) {
  const std::vector<const Curve*> random = curves.Of(cell.task, kRandom);
  if (random.empty() || strategy == kRandom) return std::nullopt;
  return MeanWithInterval(LeadsByRun(curves.Of(cell.task, strategy), random, cell.span, metric)).mean;
}

SpanMeans MeansOf(const CurveSet& curves, const std::string& subject, const WtlCell& cell, Metric metric) {
  SpanMeans means;
  means.over_opponent = MeanWithInterval(
      LeadsByRun(curves.Of(cell.task, subject), curves.Of(cell.task, cell.opponent), cell.span, metric));
  if (cell.opponent == kRandom) return means;
  means.subject_over_random = LeadOverRandom(curves, cell, subject, metric);
  means.opponent_over_random = LeadOverRandom(curves, cell, cell.opponent, metric);
  return means;
}

std::string AboveOrBelow(double lead) {
  return absl::StrFormat("%.1f %s", std::abs(lead), lead < 0 ? "below" : "above");
}

std::optional<WtlCounts> PaperCounts(const ExperimentSpec& spec, const WtlCell& cell) {
  for (const TaskSettings& task : spec.tasks) {
    if (task.name != cell.task) continue;
    const auto found = task.paper.find(cell.opponent);
    if (found != task.paper.end()) return found->second[cell.span_index];
  }
  return std::nullopt;
}

std::string Quoted(const std::string& text) {
  return text.empty() ? "" : absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}, {"\n", " "}}), "\"");
}

}  // namespace

int LeanOf(const WtlCounts& counts) {
  return counts.win > counts.loss ? 1 : counts.win < counts.loss ? -1 : 0;
}

Agreement WtlCell::agreement() const {
  if (!paper || LeanOf(*paper) == LeanOf(counts)) return Agreement::kSame;
  return LeanOf(*paper) * LeanOf(counts) < 0 ? Agreement::kOpposite : Agreement::kUndecided;
}

std::string AgreementName(Agreement agreement) {
  switch (agreement) {
    case Agreement::kSame:
      return "same";
    case Agreement::kUndecided:
      return "undecided";
    case Agreement::kOpposite:
      return "opposite";
  }
  return "";
}

std::vector<WtlCell> CompareWithSubject(const ExperimentSpec& spec, const CurveSet& curves) {
  std::vector<WtlCell> cells;
  const std::string& subject = spec.comparison.subject;
  for (const std::string& task : curves.Tasks()) {
    const std::vector<const Curve*> own = curves.Of(task, subject);
    if (own.empty()) continue;
    const std::size_t last_round = curves.LastRound(task);
    for (const std::string& opponent : curves.StrategiesOf(task)) {
      if (opponent == subject) continue;
      const std::vector<const Curve*> others = curves.Of(task, opponent);
      for (std::size_t i = 0; i < spec.comparison.spans.size(); ++i) {
        RoundSpan span = spec.comparison.spans[i];
        span.last = std::min(span.last, last_round);
        if (span.first > span.last) continue;
        WtlCell cell{.task = task, .opponent = opponent, .span_index = i, .span = span};
        cell.counts = CountSpan(own, others, span, spec.metric);
        cell.means = MeansOf(curves, subject, cell, spec.metric);
        cell.paper = PaperCounts(spec, cell);
        cells.push_back(cell);
      }
    }
  }
  return cells;
}

std::string NoteOn(const ComparisonSettings& comparison, const WtlCell& cell) {
  for (const std::string& key : {absl::StrCat(cell.task, "/", cell.opponent), cell.opponent}) {
    const auto found = comparison.notes.find(key);
    if (found != comparison.notes.end()) return found->second;
  }
  return "";
}

std::string DescribeMeans(const std::string& subject, const WtlCell& cell) {
  const MeanInterval& lead = cell.means.over_opponent;
  std::string text = absl::StrFormat("%s is %.1f ± %.1f points %s %s", subject, std::abs(lead.mean), lead.half_width,
                                     lead.mean < 0 ? "below" : "above", cell.opponent);
  if (cell.means.subject_over_random && cell.means.opponent_over_random) {
    absl::StrAppend(&text, "; ", subject, " is ", AboveOrBelow(*cell.means.subject_over_random), " random, ",
                    cell.opponent, " ", AboveOrBelow(*cell.means.opponent_over_random), " it");
  }
  return text;
}

std::string WtlTable(const ExperimentSpec& spec, const std::vector<WtlCell>& cells) {
  std::string text =
      "task,subject,opponent,first_round,last_round,win,tie,loss,lead,lead_half_width,paper_win,paper_tie,"
      "paper_loss,lean,note\n";
  for (const WtlCell& cell : cells) {
    absl::StrAppend(&text, cell.task, ",", spec.comparison.subject, ",", cell.opponent, ",", cell.span.first, ",",
                    cell.span.last, ",", cell.counts.win, ",", cell.counts.tie, ",", cell.counts.loss, ",");
    absl::StrAppendFormat(&text, "%.3f,%.3f,", cell.means.over_opponent.mean, cell.means.over_opponent.half_width);
    if (cell.paper) {
      absl::StrAppend(&text, cell.paper->win, ",", cell.paper->tie, ",", cell.paper->loss, ",",
                      AgreementName(cell.agreement()), ",");
    } else {
      text.append(",,,,");
    }
    absl::StrAppend(&text, cell.agreement() != Agreement::kSame ? Quoted(NoteOn(spec.comparison, cell)) : "", "\n");
  }
  return text;
}

namespace {

/// Where the mean curve first has the metric at `enough`, which is not a number without a full-data line.
void CountLabels(const std::vector<const Curve*>& runs, std::size_t last_round, Metric metric, double enough,
                 RegretEntry& entry) {
  const auto count = static_cast<double>(runs.size());
  for (std::size_t round = 0; round <= last_round; ++round) {
    double value = 0, labels = 0;
    for (const Curve* curve : runs) {
      value += ValueOf(curve->points[round], metric) / count;
      labels += static_cast<double>(curve->points[round].labels) / count;
    }
    if (!entry.labels_needed && value >= enough) entry.labels_needed = labels;
    entry.labels_at_end = labels;
  }
}

const RegretEntry* EntryOf(const TaskRegret& task, const std::string& strategy) {
  const auto found = std::ranges::find(task.entries, strategy, &RegretEntry::strategy);
  return found == task.entries.end() ? nullptr : &*found;
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
      CountLabels(runs, last_round, metric, kEnoughOfFullData * curves.FullDataMean(task, metric), entry);
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

std::vector<LabelNeeds> SummarizeLabels(const std::vector<TaskRegret>& tasks) {
  std::vector<LabelNeeds> all;
  std::map<std::string, std::vector<double>> ratios;
  for (const TaskRegret& task : tasks) {
    const RegretEntry* const random = EntryOf(task, kRandom);
    for (const RegretEntry& entry : task.entries) {
      auto found = std::ranges::find(all, entry.strategy, &LabelNeeds::strategy);
      if (found == all.end()) found = all.insert(found, LabelNeeds{.strategy = entry.strategy});
      found->reached += entry.labels_needed ? 1 : 0;
      if (!entry.labels_needed && (random == nullptr || !random->labels_needed)) continue;
      ++found->tasks;
      if (random == nullptr) continue;
      const double own = entry.labels_needed.value_or(std::numeric_limits<double>::infinity());
      ratios[entry.strategy].push_back(own / random->labels_needed.value_or(random->labels_at_end));
    }
  }
  for (LabelNeeds& needs : all) {
    std::vector<double>& found = ratios[needs.strategy];
    if (found.empty()) continue;
    std::ranges::sort(found);
    needs.median_of_random = (found[(found.size() - 1) / 2] + found[found.size() / 2]) / 2;
  }
  return all;
}

std::string RegretTable(const std::vector<TaskRegret>& tasks) {
  std::string text = "task,strategy,area,regret,share,labels_to_95\n";
  for (const TaskRegret& task : tasks) {
    for (const RegretEntry& entry : task.entries) {
      absl::StrAppendFormat(&text, "%s,%s,%.6f,%.6f,%.6f,", task.task, entry.strategy, entry.area, entry.regret,
                            entry.share);
      if (entry.labels_needed) absl::StrAppendFormat(&text, "%.1f", *entry.labels_needed);
      text.push_back('\n');
    }
  }
  return text;
}

}  // namespace fulcrum::pipeline
