#include "pipeline/experiment/report/wtl_section.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "pipeline/experiment/report/html_text.h"

namespace fulcrum::pipeline {
namespace {

std::string CountsText(const WtlCounts& counts) {
  return absl::StrCat(counts.win, "/", counts.tie, "/", counts.loss);
}

std::string CountsBar(const WtlCounts& counts) {
  const auto total = static_cast<double>(std::max<std::size_t>(1, counts.win + counts.tie + counts.loss));
  const auto part = [&](const char* css_class, std::size_t count) {
    return count == 0 ? std::string()
                      : absl::StrFormat("<i class=\"%s\" style=\"width:%.2f%%\"></i>", css_class,
                                        100 * static_cast<double>(count) / total);
  };
  return absl::StrCat("<span class=\"bar\">", part("win", counts.win), part("tie", counts.tie),
                      part("loss", counts.loss), "</span>");
}

std::string SpanText(const RoundSpan& span) {
  return absl::StrCat("rounds ", span.first, "–", span.last);
}

std::string CellHtml(const WtlCell& cell) {
  const bool differs = !cell.AgreesWithPaper();
  std::string html = absl::StrCat("<div class=\"wtl", differs ? " differs" : "", "\"><small>", SpanText(cell.span),
                                  "</small><b>", CountsText(cell.counts), "</b>", CountsBar(cell.counts));
  if (cell.paper) {
    absl::StrAppend(&html, "<span class=\"paper\">", CountsBar(*cell.paper), "paper ", CountsText(*cell.paper),
                    differs ? " <em title=\"leans the other way\">≠</em>" : "", "</span>");
  }
  return html + "</div>";
}

std::vector<std::string> InOrder(const std::vector<WtlCell>& cells, std::string WtlCell::*name) {
  std::vector<std::string> names;
  for (const WtlCell& cell : cells) {
    if (std::ranges::find(names, cell.*name) == names.end()) names.push_back(cell.*name);
  }
  return names;
}

std::string Table(const std::string& subject, const std::vector<WtlCell>& cells) {
  const std::vector<std::string> opponents = InOrder(cells, &WtlCell::opponent);
  std::vector<std::string> heading{""};
  for (const std::string& opponent : opponents) heading.push_back(absl::StrCat("against ", EscapeHtml(opponent)));
  std::string rows = TableRow("th", heading);
  for (const std::string& task : InOrder(cells, &WtlCell::task)) {
    std::vector<std::string> row{absl::StrCat("<strong>", EscapeHtml(task), "</strong>")};
    for (const std::string& opponent : opponents) {
      std::string& html = row.emplace_back();
      for (const WtlCell& cell : cells) {
        if (cell.task == task && cell.opponent == opponent) html.append(CellHtml(cell));
      }
    }
    rows.append(TableRow("td", row));
  }
  return absl::StrCat("<div class=\"scroll\"><table class=\"wtl-table\"><caption>", EscapeHtml(subject),
                      " wins / ties / losses</caption>", rows, "</table></div>\n");
}

/// Cells that lean the other way than the paper's, together where they have the same reason.
std::string Differences(const ComparisonSettings& comparison, const std::vector<WtlCell>& cells) {
  std::map<std::string, std::vector<std::string>> places_by_note;
  std::size_t compared = 0, differing = 0;
  for (const WtlCell& cell : cells) {
    compared += cell.paper ? 1 : 0;
    if (cell.AgreesWithPaper()) continue;
    ++differing;
    places_by_note[NoteOn(comparison, cell)].push_back(absl::StrCat(cell.task, " against ", cell.opponent, ", ",
                                                                    SpanText(cell.span), " (", CountsText(cell.counts),
                                                                    ", paper ", CountsText(*cell.paper), ")"));
  }
  if (compared == 0) return "";
  std::string html = absl::StrCat("<h3>Agreement with the paper</h3><p>", compared - differing, " of ", compared,
                                  " cells lean the way the paper's do (more rounds won than lost, fewer, or as many on "
                                  "either side).</p>\n");
  if (differing == 0) return html;
  html.append("<ul class=\"differences\">\n");
  for (const auto& [note, places] : places_by_note) {
    absl::StrAppend(&html, "<li>", EscapeHtml(absl::StrJoin(places, "; ")), "<br><span>",
                    note.empty() ? "The spec gives no reason for this one." : EscapeHtml(note), "</span></li>\n");
  }
  return html + "</ul>\n";
}

}  // namespace

std::string WtlSection(const ExperimentSpec& spec, const std::vector<WtlCell>& cells) {
  if (cells.empty()) return "";
  const std::string introduction = absl::StrCat(
      "For every round a one-sided paired t-test at 0.05 over the runs: does ", EscapeHtml(spec.comparison.subject),
      " have the higher ", spec.metric == Metric::kAccuracy ? "accuracy" : "F1",
      " (<span class=\"key win\">win</span>), the lower (<span class=\"key loss\">loss</span>), or can they not be "
      "told "
      "apart (<span class=\"key tie\">tie</span>)?");
  return Section("wtl", "Wins, ties and losses", introduction,
                 Table(spec.comparison.subject, cells) + Differences(spec.comparison, cells));
}

}  // namespace fulcrum::pipeline
