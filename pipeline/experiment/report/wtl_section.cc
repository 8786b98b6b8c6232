#include "pipeline/experiment/report/wtl_section.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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

std::string CountsLine(const char* css_class, const WtlCounts& counts, const std::string& remark) {
  return absl::StrCat("<div class=\"", css_class, "\"><b>", CountsText(counts), "</b>", CountsBar(counts), remark,
                      "</div>");
}

std::string CellHtml(const WtlCell& cell) {
  std::string html =
      absl::StrCat("<div class=\"wtl\"><small>", SpanText(cell.span), "</small>", CountsLine("ours", cell.counts, ""));
  if (cell.paper) {
    const Agreement agreement = cell.agreement();
    const char* mark = agreement == Agreement::kSame        ? ""
                       : agreement == Agreement::kUndecided ? " <em title=\"one of the two does not lean\">≈</em>"
                                                            : " <em title=\"leans the other way\">≠</em>";
    html.append(CountsLine("paper", *cell.paper, absl::StrCat("<span>paper", mark, "</span>")));
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

/// Cells with this agreement and what is known about each, together where they have the same reason.
std::string ListCells(const ComparisonSettings& comparison, const std::vector<WtlCell>& cells, Agreement agreement,
                      const std::string& without_note) {
  std::map<std::string, std::string> places_by_note;
  for (const WtlCell& cell : cells) {
    if (!cell.paper || cell.agreement() != agreement) continue;
    absl::StrAppend(&places_by_note[NoteOn(comparison, cell)], "<li><b>",
                    EscapeHtml(absl::StrCat(cell.task, " against ", cell.opponent, ", ", SpanText(cell.span))),
                    "</b> (", CountsText(cell.counts), ", paper ", CountsText(*cell.paper),
                    "): ", EscapeHtml(DescribeMeans(comparison.subject, cell)), ".</li>\n");
  }
  std::string html;
  for (const auto& [note, places] : places_by_note) {
    absl::StrAppend(&html, "<li><span>", EscapeHtml(note.empty() ? without_note : note), "</span><ul>\n", places,
                    "</ul></li>\n");
  }
  return html.empty() ? "" : absl::StrCat("<ul class=\"differences\">\n", html, "</ul>\n");
}

std::string Differences(const ComparisonSettings& comparison, const std::vector<WtlCell>& cells) {
  std::size_t compared = 0;
  std::map<Agreement, std::size_t> counts;
  for (const WtlCell& cell : cells) {
    if (!cell.paper) continue;
    ++compared;
    ++counts[cell.agreement()];
  }
  if (compared == 0) return "";
  std::string html = absl::StrCat("<h3>Beside the paper</h3><p>", counts[Agreement::kSame], " of ", compared,
                                  " cells lean the way the paper’s do: more rounds won than lost, or fewer.");
  if (counts[Agreement::kSame] < compared) {
    html.append(
        " For each of the others: by how much the two differ on average over the rounds (± the 95% interval over the "
        "runs), and where both are beside random, which has no settings that could differ between the programs.");
  }
  html.append("</p>\n");
  const std::string opposite = ListCells(comparison, cells, Agreement::kOpposite,
                                         "No cause is known: the same halves, settings and test, by another program.");
  const std::string undecided = ListCells(comparison, cells, Agreement::kUndecided,
                                          "Too few rounds differ by more than chance to say which way it leans.");
  if (!opposite.empty())
    absl::StrAppend(&html, "<p>", counts[Agreement::kOpposite], " lean the other way (≠):</p>", opposite);
  if (!undecided.empty()) {
    absl::StrAppend(&html, "<p>", counts[Agreement::kUndecided], " lean in one of the two only (≈):</p>", undecided);
  }
  return html;
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
