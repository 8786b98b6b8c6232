#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "pipeline/experiment/experiment.h"

namespace fulcrum::pipeline {
namespace {

TEST(StudentCdf, HasClosedFormsForFewDegreesOfFreedom) {
  for (const double t : {-7.0, -1.3, -0.2, 0.0, 0.4, 1.0, 2.5, 40.0}) {
    EXPECT_NEAR(StudentCdf(t, 1), 0.5 + std::atan(t) / std::numbers::pi, 1e-13) << t;
    EXPECT_NEAR(StudentCdf(t, 2), 0.5 + t / (2 * std::sqrt(2 + t * t)), 1e-13) << t;
  }
}

TEST(StudentQuantile, EqualsPrintedTables) {
  EXPECT_NEAR(StudentQuantile(0.95, 4), 2.131847, 1e-6);
  EXPECT_NEAR(StudentQuantile(0.975, 9), 2.262157, 1e-6);
  EXPECT_NEAR(StudentQuantile(0.95, 49), 1.676551, 1e-6);
  EXPECT_NEAR(StudentQuantile(0.975, 49), 2.009575, 1e-6);
  EXPECT_NEAR(StudentQuantile(0.05, 4), -2.131847, 1e-6);
  EXPECT_NEAR(StudentCdf(StudentQuantile(0.123, 17), 17), 0.123, 1e-12);
}

/// n values around `mean` with t = mean / (deviation / sqrt(n)) exactly as asked.
std::vector<double> WithStatistic(std::size_t n, double t) {
  std::vector<double> values;
  for (std::size_t i = 0; i < n; ++i) values.push_back(i % 2 == 0 ? 1 : -1);
  const auto count = static_cast<double>(n);
  const double deviation = std::sqrt(count / (count - 1));  // n is even: the mean is 0
  for (double& value : values) value += t * deviation / std::sqrt(count);
  return values;
}

TEST(ComparePaired, DecidesAtTheTablesValue) {
  const std::vector<double> zeros(10, 0.0);
  // 1.833113 is the 95% point for 9 degrees of freedom.
  EXPECT_EQ(ComparePaired(WithStatistic(10, 1.84), zeros), Verdict::kWin);
  EXPECT_EQ(ComparePaired(WithStatistic(10, 1.82), zeros), Verdict::kTie);
  EXPECT_EQ(ComparePaired(WithStatistic(10, -1.82), zeros), Verdict::kTie);
  EXPECT_EQ(ComparePaired(WithStatistic(10, -1.84), zeros), Verdict::kLoss);
}

TEST(ComparePaired, LooksAtDifferencesNotAtLevels) {
  const std::vector<double> a{0.51, 0.72, 0.93, 0.64}, b{0.50, 0.70, 0.91, 0.62};
  EXPECT_EQ(ComparePaired(a, b), Verdict::kWin) << "unpaired, the spread of the levels would hide it";
}

TEST(ComparePaired, ConstantDifferencesAndTooFewRuns) {
  const std::vector<double> a{0.5, 0.75}, b{0.25, 0.5};
  EXPECT_EQ(ComparePaired(a, b), Verdict::kWin);
  EXPECT_EQ(ComparePaired(b, a), Verdict::kLoss);
  EXPECT_EQ(ComparePaired(a, a), Verdict::kTie);
  EXPECT_EQ(ComparePaired(std::vector<double>{1}, std::vector<double>{0}), Verdict::kTie);
}

TEST(MeanWithInterval, IsStudentsInterval) {
  const std::vector<double> values{1, 2, 3, 4, std::nan("")};
  const MeanInterval interval = MeanWithInterval(values);
  EXPECT_DOUBLE_EQ(interval.mean, 2.5);
  EXPECT_NEAR(interval.half_width, 3.182446 * std::sqrt(5.0 / 3) / 2, 1e-6);
  EXPECT_EQ(MeanWithInterval(std::vector<double>{7}).half_width, 0);
  EXPECT_TRUE(std::isnan(MeanWithInterval({}).mean));
}

}  // namespace
}  // namespace fulcrum::pipeline
