#include "pipeline/experiment/win_tie_loss.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace fulcrum::pipeline {
namespace {

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

std::string WtlTable(const ExperimentSpec& spec, const std::vector<WtlCell>& cells) {
  std::string text =
      "task,subject,opponent,first_round,last_round,win,tie,loss,paper_win,paper_tie,paper_loss,lean,note\n";
  for (const WtlCell& cell : cells) {
    absl::StrAppend(&text, cell.task, ",", spec.comparison.subject, ",", cell.opponent, ",", cell.span.first, ",",
                    cell.span.last, ",", cell.counts.win, ",", cell.counts.tie, ",", cell.counts.loss, ",");
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

}  // namespace fulcrum::pipeline
