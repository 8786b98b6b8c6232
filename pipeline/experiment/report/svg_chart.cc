#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "pipeline/experiment/report/report_page.h"

namespace fulcrum::pipeline {
namespace {

/// The round number (1, 2 or 5 times a power of ten) nearest above.
double RoundStep(double step) {
  const double power = std::pow(10, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (step <= factor * power * (1 + 1e-9)) return factor * power;
  }
  return 10 * power;
}

}  // namespace

ChartScale::ChartScale(double low, double high, double first_pixel, double last_pixel, bool logarithmic)
    : low_(low),
      high_(high > low ? high : low + 1),
      first_pixel_(first_pixel),
      last_pixel_(last_pixel),
      logarithmic_(logarithmic) {}

double ChartScale::operator()(double value) const {
  const double share = logarithmic_ ? (std::log(value) - std::log(low_)) / (std::log(high_) - std::log(low_))
                                    : (value - low_) / (high_ - low_);
  return first_pixel_ + share * (last_pixel_ - first_pixel_);
}

std::vector<double> ChartScale::Ticks(std::size_t wanted) const {
  std::vector<double> ticks;
  if (logarithmic_) {
    for (double tick = std::pow(10, std::ceil(std::log10(low_) - 1e-9)); tick <= high_ * (1 + 1e-9); tick *= 10) {
      ticks.push_back(tick);
    }
    return ticks;
  }
  const double step = RoundStep((high_ - low_) / static_cast<double>(wanted));
  for (double index = std::ceil(low_ / step - 1e-9); index * step <= high_ + 1e-9 * step; ++index) {
    ticks.push_back(index * step);
  }
  return ticks;
}

std::string TickText(double value, double distance) {
  const int digits = std::clamp(static_cast<int>(std::ceil(-std::log10(distance) - 1e-9)), 0, 9);
  return absl::StrFormat("%.*f", digits, value);
}

SvgDrawing::SvgDrawing(double width, double height, const std::string& label) {
  text_ =
      absl::StrFormat("<svg viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"%s\">\n", width, height, EscapeHtml(label));
}

void SvgDrawing::Line(double x1, double y1, double x2, double y2, const std::string& css_class) {
  absl::StrAppendFormat(&text_, "<line x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\" class=\"%s\"/>\n", x1, y1, x2,
                        y2, css_class);
}

void SvgDrawing::Rect(double x, double y, double width, double height, const std::string& css_class) {
  absl::StrAppendFormat(&text_, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" rx=\"2\" class=\"%s\"/>\n",
                        x, y, std::max(width, 0.5), height, css_class);
}

void SvgDrawing::AppendPoints(const Points& points) {
  text_.append(" points=\"");
  for (const auto& [x, y] : points) absl::StrAppendFormat(&text_, "%.1f,%.1f ", x, y);
  text_.append("\"");
}

void SvgDrawing::Polyline(const Points& points, const std::string& css_class, const std::string& tooltip) {
  absl::StrAppend(&text_, "<polyline class=\"", css_class, "\"");
  AppendPoints(points);
  absl::StrAppend(&text_, "><title>", EscapeHtml(tooltip), "</title></polyline>\n");
}

void SvgDrawing::Polygon(const Points& points, const std::string& css_class) {
  absl::StrAppend(&text_, "<polygon class=\"", css_class, "\"");
  AppendPoints(points);
  text_.append("/>\n");
}

void SvgDrawing::Text(double x, double y, const std::string& anchor, const std::string& css_class,
                      const std::string& text) {
  absl::StrAppendFormat(&text_, "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"%s\" class=\"%s\">%s</text>\n", x, y, anchor,
                        css_class, EscapeHtml(text));
}

void SvgDrawing::BeginGroup(const std::string& css_class) {
  absl::StrAppend(&text_, "<g class=\"", css_class, "\">\n");
}

void SvgDrawing::EndGroup() {
  text_.append("</g>\n");
}

std::string EscapeHtml(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

std::string Section(const std::string& anchor, const std::string& heading, const std::string& introduction,
                    const std::string& body) {
  const std::string lead = introduction.empty() ? "" : absl::StrCat("<p class=\"lead\">", introduction, "</p>\n");
  return absl::StrCat("<section id=\"", anchor, "\">\n<h2>", heading, "</h2>\n", lead, body, "</section>\n");
}

std::string TableRow(const std::string& tag, const std::vector<std::string>& cells) {
  std::string row = "<tr>";
  for (const std::string& cell : cells) absl::StrAppend(&row, "<", tag, ">", cell, "</", tag, ">");
  return row + "</tr>\n";
}

namespace {

constexpr std::size_t kColors = 10;   // as many as the style sheet has
constexpr std::size_t kPatterns = 4;  // of dashes, the same

}  // namespace

SeriesColors::SeriesColors(const CurveSet& curves)
    : full_data_(std::ranges::any_of(curves.all(), [](const Curve& curve) { return curve.strategy == kFullData; })) {
  for (const std::string& task : curves.Tasks()) {
    for (const std::string& strategy : curves.StrategiesOf(task)) {
      if (std::ranges::find(strategies_, strategy) == strategies_.end()) strategies_.push_back(strategy);
    }
  }
}

std::string SeriesColors::ClassOf(const std::string& strategy) const {
  const auto index = static_cast<std::size_t>(std::ranges::find(strategies_, strategy) - strategies_.begin());
  return absl::StrCat("n", index, " s", index % kColors, " d", index / kColors % kPatterns);
}

std::string SeriesColors::Legend() const {
  std::string html = "<div class=\"legend\">";
  for (std::size_t i = 0; i < strategies_.size(); ++i) {
    // The line of the legend is a piece of the curve, with its colour and dashes.
    absl::StrAppend(&html, "<button type=\"button\" class=\"chip ", ClassOf(strategies_[i]), "\" data-series=\"n", i,
                    "\" aria-pressed=\"false\"><svg viewBox=\"0 0 34 6\" aria-hidden=\"true\"><path class=\"curve\" "
                    "d=\"M1 3H33\"/></svg>",
                    EscapeHtml(strategies_[i]), "</button>");
  }
  if (full_data_) html += "<span class=\"chip dashed\"><i></i>whole training half labeled</span>";
  return html + "</div>\n";
}

}  // namespace fulcrum::pipeline
