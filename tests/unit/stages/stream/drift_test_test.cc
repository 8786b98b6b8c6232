#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "stages/stream/stream_selector.h"
#include "tests/unit/stages/stream/stream_pool.h"

namespace fulcrum::stream {
namespace {

/// Windows of the stream that raise an alarm; every row is shifted by so much.
std::uint64_t Alarms(const TestPool& pool, const DriftOptions& options, std::size_t windows, double shift) {
  const auto model = pool.Model();
  DriftTest test = DriftTest::Make(model, options).value();
  Random random(41);
  RowView view;
  std::uint64_t alarms = 0;
  for (std::size_t i = 0; i < windows * options.window; ++i) {
    std::vector<double> row = ClusterRow(4, random.Below(2), random);
    for (double& value : row) value += shift;
    model->Look(row, view);
    alarms += test.Offer(view.coordinates) ? 1 : 0;
  }
  EXPECT_EQ(test.report().windows, windows);
  EXPECT_EQ(test.report().alarms, alarms);
  return alarms;
}

TEST(AlarmValue, IsTheQuantileOfSquaredNormals) {
  // Of chi squared with one and with three degrees of freedom, from tables.
  EXPECT_NEAR(AlarmValue(std::vector<double>{1}, 0.05, 1), 3.841, 0.25);
  EXPECT_NEAR(AlarmValue(std::vector<double>{1}, 0.001, 1), 10.828, 0.5);
  EXPECT_NEAR(AlarmValue(std::vector<double>{2, 2, 2}, 0.01, 1), 2 * 11.345, 1.2);
}

TEST(DriftTest, AlarmsOfAStreamThatDoesNotChangeComeAtTheStatedRate) {
  const TestPool pool(3000, 4, 2, 30, 3);
  // 20 of 400 are expected, with a deviation of 4.4; the reference rows are a sample as well.
  const std::uint64_t alarms = Alarms(pool, {.window = 200, .false_alarm_rate = 0.05}, 400, 0);
  EXPECT_GE(alarms, 5U);
  EXPECT_LE(alarms, 40U);
  EXPECT_LE(Alarms(pool, {.window = 200, .false_alarm_rate = 0.001}, 400, 0), 4U);
}

TEST(DriftTest, ASmallShiftIsNoticed) {
  const TestPool pool(3000, 4, 2, 30, 3);
  EXPECT_GE(Alarms(pool, {.window = 500, .false_alarm_rate = 0.001}, 20, 0.3), 18U);
}

TEST(DriftTest, RowsThatLeaveTheRegionAreNoticedAtOnce) {
  const TestPool pool(3000, 4, 2, 30, 3);
  EXPECT_EQ(Alarms(pool, {.window = 50, .false_alarm_rate = 0.001}, 10, 20), 10U);
}

TEST(DriftTest, RefusesImpossibleOptions) {
  const TestPool pool(100, 4, 2, 10, 3);
  EXPECT_FALSE(DriftTest::Make(pool.Model(), {.window = 0}).ok());
  EXPECT_FALSE(DriftTest::Make(pool.Model(), {.false_alarm_rate = 0}).ok());
  EXPECT_FALSE(DriftTest::Make(pool.Model(), {.false_alarm_rate = 0.9}).ok());
}

}  // namespace
}  // namespace fulcrum::stream
