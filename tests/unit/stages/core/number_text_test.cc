#include "stages/core/number_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "stages/core/random.h"

namespace fulcrum::ingest {
namespace {

TEST(NumberText, ReadsWhatPeopleWrite) {
  EXPECT_EQ(ParseNumber("1"), 1.0);
  EXPECT_EQ(ParseNumber("+1.5"), 1.5);
  EXPECT_EQ(ParseNumber(" -2e-3\t"), -2e-3);
  EXPECT_EQ(ParseNumber(".5"), 0.5);
  EXPECT_TRUE(std::isnan(*ParseNumber("NaN")));
  EXPECT_EQ(ParseNumber("-inf"), -std::numeric_limits<double>::infinity());
}

TEST(NumberText, RefusesWhatIsNoNumber) {
  for (const char* text : {"", " ", "abc", "1.2.3", "1,5", "1 2", "+", "+-1", "--1", "1e", "0x10", "12abc"}) {
    EXPECT_EQ(ParseNumber(text), std::nullopt) << "'" << text << "'";
  }
}

TEST(NumberText, ValuesBeyondADoubleAreInfiniteOrZero) {
  EXPECT_EQ(ParseNumber("1e400"), std::numeric_limits<double>::infinity());
  EXPECT_EQ(ParseNumber("-1e400"), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(ParseNumber("1e-400"), 0.0);
}

TEST(NumberText, WhatIsWrittenReadsBackTheSame) {
  Random random(7);
  for (int i = 0; i < 1000; ++i) {
    const double value = random.Normal() * std::pow(10.0, random.Uniform() * 600 - 300);
    std::string text;
    AppendNumber(value, text);
    EXPECT_EQ(std::strtod(text.c_str(), nullptr), value) << text;
    EXPECT_EQ(ParseNumber(text), value) << text;
  }
}

}  // namespace
}  // namespace fulcrum::ingest
