#include "pipeline/experiment/report/series_colors.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "pipeline/experiment/report/html_text.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::size_t kColors = 10;  // as many as the style sheet has

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
  return absl::StrCat("s", index % kColors);
}

std::string SeriesColors::Legend() const {
  std::string html = "<div class=\"legend\">";
  for (const std::string& strategy : strategies_) {
    const std::string css_class = ClassOf(strategy);
    absl::StrAppend(&html, "<button type=\"button\" class=\"chip ", css_class, "\" data-series=\"", css_class,
                    "\" aria-pressed=\"true\"><i></i>", EscapeHtml(strategy), "</button>");
  }
  if (full_data_) html += "<span class=\"chip dashed\"><i></i>whole training half labeled</span>";
  return html + "</div>\n";
}

}  // namespace fulcrum::pipeline
