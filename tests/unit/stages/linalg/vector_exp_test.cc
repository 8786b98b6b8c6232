#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "stages/linalg/blas.h"

namespace fulcrum::linalg {
namespace {

TEST(ExpInPlace, IsWithinAFewUnitsOfTheLastPlace) {
  std::vector<double> values, expected;
  for (double x = -700; x <= 10; x += 0.37) values.push_back(x);
  values.push_back(0);
  for (double value : values) expected.push_back(std::exp(value));
  ExpInPlace(std::span(values));
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 4e-16 * expected[i]);
}

TEST(ExpInPlace, OfFloatsIsWithinAFewUnitsOfTheLastPlace) {
  std::vector<float> values;
  std::vector<double> expected;
  for (float x = -86; x <= 10; x += 0.037F) values.push_back(x);
  for (float value : values) expected.push_back(std::exp(static_cast<double>(value)));
  ExpInPlace(std::span(values));
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(values[i]), expected[i], 2e-7 * expected[i]);
  }
}

TEST(ExpInPlace, StaysFiniteBeyondTheRange) {
  std::vector<double> values = {-1e9, -750, 800, std::nan("")};
  std::vector<float> floats = {-1e9F, -100, 100, std::nanf("")};
  ExpInPlace(std::span(values));
  ExpInPlace(std::span(floats));
  for (std::size_t i : {0, 1}) {
    EXPECT_GE(values[i], 0);
    EXPECT_LT(values[i], 1e-300);
    EXPECT_GE(floats[i], 0);
    EXPECT_LT(floats[i], 1e-37F);
  }
  EXPECT_TRUE(std::isfinite(values[2]) && values[2] > 1e307);
  EXPECT_TRUE(std::isfinite(floats[2]) && floats[2] > 1e37F);
  EXPECT_TRUE(std::isnan(values[3])) << "a broken input must not look like a similarity";
  EXPECT_TRUE(std::isnan(floats[3]));
}

TEST(ExpOfDistances, IsTheKernelOfTheDistances) {
  // Points 3 and 1, 2.5, 3 and one that rounding has put too near: 2 * 9.1 > 9 + 9.
  const std::vector<double> norms = {1, 6.25, 9, 9};
  std::vector<double> dots = {3, 7.5, 9, 9.1};
  ExpOfDistances(9.0, norms, 0.5, dots);
  EXPECT_NEAR(dots[0], std::exp(-2.0), 1e-16);
  EXPECT_NEAR(dots[1], std::exp(-0.125), 1e-15);
  EXPECT_EQ(dots[2], 1);
  EXPECT_EQ(dots[3], 1);
}

/// Exp of numbers below zero by the one and by the other, which has loops of its own for processors with long vectors.
template <typename T>
void ExpectTheSameToTheLastBit(T lowest) {
  // Not a multiple of any vector's length.
  std::vector<T> values(1003);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = lowest * static_cast<T>(i) / static_cast<T>(values.size());
  std::vector<T> by_distance = values;
  const std::vector<T> zeros(values.size(), T{0});
  ExpInPlace(std::span(values));
  ExpOfDistances(T{0}, std::span<const T>(zeros), T(0.5), std::span(by_distance));
  EXPECT_EQ(by_distance, values);
}

TEST(ExpOfDistances, IsTheSameToTheLastBitOnEveryProcessor) {
  ExpectTheSameToTheLastBit<double>(-700);
  ExpectTheSameToTheLastBit<float>(-86);
}

}  // namespace
}  // namespace fulcrum::linalg
