// What the charts of the report share: scales with round ticks, and SVG elements as text. Not thread-safe.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "pipeline/experiment/curves.h"

namespace fulcrum::pipeline {

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

}  // namespace fulcrum::pipeline
