// Which colour a strategy has, in every chart and table of a report. Immutable after construction, thread-safe.
#pragma once

#include <string>
#include <vector>

#include "pipeline/experiment/curve_set.h"

namespace fulcrum::pipeline {

class SeriesColors {
 public:
  /// In the order in which strategies come in the curves.
  explicit SeriesColors(const CurveSet& curves);

  const std::vector<std::string>& strategies() const { return strategies_; }
  /// "s0", "s1", ...: the page's style sheet has a colour for each.
  std::string ClassOf(const std::string& strategy) const;
  /// The legend of all strategies, as HTML; a click hides a strategy's lines.
  std::string Legend() const;

 private:
  std::vector<std::string> strategies_;
  bool full_data_;  // whether some curve is the full-data line
};

}  // namespace fulcrum::pipeline
