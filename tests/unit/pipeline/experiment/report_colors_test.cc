// How strategies look in the charts of the report: no two the same, and each on its own in the legend.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>
#include <vector>

#include "pipeline/experiment/report/report_page.h"

namespace fulcrum::pipeline {
namespace {

using ::testing::HasSubstr;

std::string Name(std::size_t index) {
  return "strategy" + std::to_string(index);
}

CurveSet Curves(std::size_t strategies) {
  std::vector<Curve> curves;
  for (std::size_t i = 0; i < strategies; ++i)
    curves.push_back({.task = "t", .strategy = Name(i), .run = 0, .points = {}});
  return CurveSet(curves);
}

TEST(ReportColorsTest, NoTwoStrategiesLookTheSame) {
  constexpr std::size_t kStrategies = 40;  // twice as many as there are
  const SeriesColors colors(Curves(kStrategies));
  std::set<std::string> looks, own;
  for (std::size_t i = 0; i < kStrategies; ++i) {
    std::smatch parts;
    const std::string classes = colors.ClassOf(Name(i));
    ASSERT_TRUE(std::regex_match(classes, parts, std::regex("(n\\d+) (s\\d d\\d)"))) << classes;
    EXPECT_TRUE(own.insert(parts[1]).second) << classes;
    EXPECT_TRUE(looks.insert(parts[2]).second) << classes << " looks like another one";
  }
}

TEST(ReportColorsTest, AChipOfTheLegendPinsItsOwnCurveOnly) {
  const SeriesColors colors(Curves(21));
  const std::string legend = colors.Legend();
  std::set<std::string> pinned;
  const std::regex chip("class=\"chip ([^\"]*)\" data-series=\"([^\"]*)\"");
  for (std::sregex_iterator found(legend.begin(), legend.end(), chip), end; found != end; ++found) {
    const std::string classes = (*found)[1], series = (*found)[2];
    EXPECT_TRUE(pinned.insert(series).second) << series << " is listed twice";
    EXPECT_THAT(" " + classes + " ", HasSubstr(" " + series + " "));
  }
  EXPECT_EQ(pinned.size(), 21u);
}

}  // namespace
}  // namespace fulcrum::pipeline
