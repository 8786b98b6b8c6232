// report.html: one self-contained page with all results of an experiment. A pure function.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "pipeline/experiment/curves.h"
#include "pipeline/experiment/experiment.h"
#include "pipeline/experiment/experiment_spec.h"

namespace fulcrum::pipeline {

// What the charts of the report share: scales with round ticks, and SVG elements as text. Not thread-safe.

/// Maps a range of values to a range of pixels, linearly or by the logarithm.
class ChartScale {
 public:
  ChartScale(double low, double high, double first_pixel, double last_pixel, bool logarithmic = false);
  double operator()(double value) const;
  /// Round values inside the range: about `wanted` of them, or the powers of ten.
  std::vector<double> Ticks(std::size_t wanted) const;
  double low() const { return low_; }
  double high() const { return high_; }

 private:
  double low_;
  double high_;
  double first_pixel_;
  double last_pixel_;
  bool logarithmic_;
};

/// "0.85" with as many digits as the distance of the ticks needs.
std::string TickText(double value, double distance);

using Points = std::vector<std::pair<double, double>>;

/// Builds an SVG drawing. Text is escaped; classes are styled by the page.
class SvgDrawing {
 public:
  SvgDrawing(double width, double height, const std::string& label);

  void Line(double x1, double y1, double x2, double y2, const std::string& css_class);
  void Rect(double x, double y, double width, double height, const std::string& css_class);
  void Polyline(const Points& points, const std::string& css_class, const std::string& tooltip);
  void Polygon(const Points& points, const std::string& css_class);
  /// `anchor` is start, middle or end.
  void Text(double x, double y, const std::string& anchor, const std::string& css_class, const std::string& text);
  /// Elements up to the matching EndGroup belong to this class.
  void BeginGroup(const std::string& css_class);
  void EndGroup();
  /// The finished element.
  std::string Finish() const { return text_ + "</svg>\n"; }

 private:
  void AppendPoints(const Points& points);
  std::string text_;
};

// Small pieces of HTML. Pure functions, thread-safe.

/// Escapes text for an element or a quoted attribute.
std::string EscapeHtml(const std::string& text);

/// A section of the page with a heading, an anchor and an introduction (HTML).
std::string Section(const std::string& anchor, const std::string& heading, const std::string& introduction,
                    const std::string& body);

/// A row of a table; `tag` is td or th.
std::string TableRow(const std::string& tag, const std::vector<std::string>& cells);

// The colour of each strategy in all charts and tables of a report. Immutable after construction, thread-safe.

class SeriesColors {
 public:
  /// In the order of the strategies in the curves.
  explicit SeriesColors(const CurveSet& curves);

  const std::vector<std::string>& strategies() const { return strategies_; }
  /// CSS classes: "n13" is the strategy's own, "s3" its colour and "d1" its pattern of dashes. No two strategies look
  /// the same, since patterns change when the colours of the style sheet are used up.
  std::string ClassOf(const std::string& strategy) const;
  /// The legend of all strategies, as HTML; a click pins a strategy's band, a second one unpins it.
  std::string Legend() const;

 private:
  std::vector<std::string> strategies_;
  bool full_data_;  // whether some curve is the full-data line
};

std::string ReportPage(const ExperimentSpec& spec, const ExperimentOptions& options, const ExperimentResult& result);

// The win/tie/loss table of the report: ours with the paper's below, and why some differ.

/// HTML; empty if nothing was compared.
std::string WtlSection(const ExperimentSpec& spec, const std::vector<WtlCell>& cells);

// What was queried: the classes among all queries of a run. Paper, table "class ratios of the queried sets".

/// HTML: the mean share of the positive class among the queries, and the ratio of the others to it.
std::string QueriedSection(const ExperimentSpec& spec, const CurveSet& curves, const SeriesColors& colors);

// How good the classifier of each strategy is after the last round.

/// HTML: accuracy, macro-F1 and calibration error.
std::string QualitySection(const CurveSet& curves, const SeriesColors& colors);

// The regret table of the report: how far each strategy is below the best one of each task.

/// HTML; strategies by their mean regret, smallest first.
std::string RegretSection(const std::vector<TaskRegret>& tasks, const SeriesColors& colors);
/// Empty if no strategy comes near to what all labels give, or if that is not known.
std::string LabelNeedsSection(const std::vector<TaskRegret>& tasks, const SeriesColors& colors);

// The exact settings, data and versions behind a report, so that the page can be reproduced.

std::string SettingsSection(const ExperimentSpec& spec, const ExperimentOptions& options,
                            const ExperimentResult& result);

// The critical-difference diagram: mean ranks, and which strategies cannot be distinguished.

/// HTML; empty if there is too little to rank.
std::string RankSection(const CurveSet& curves, Metric metric, const SeriesColors& colors);

// Charts of one task.

/// An SVG element; lines and bands have the classes of their series.
std::string LearningCurveChart(const CurveSet& curves, const std::string& task, Metric metric,
                               const SeriesColors& colors);

/// Small charts, one per strategy: its curve with its band in front of those of the others. HTML.
std::string SmallMultiples(const CurveSet& curves, const std::string& task, Metric metric, const SeriesColors& colors);

// Box plots of how long each strategy takes to choose the queries of a round, on a logarithmic axis.

/// An SVG element: box from the lower to the upper quartile, a line at the median, whiskers to 5% and 95%.
std::string SelectionTimeChart(const CurveSet& curves, const std::string& task, const SeriesColors& colors);

}  // namespace fulcrum::pipeline
