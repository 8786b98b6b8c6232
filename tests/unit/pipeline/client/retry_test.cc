#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "pipeline/client/campaign_calls.h"
#include "pipeline/client/server_connection.h"
#include "pipeline/client/work_session.h"
#include "pipeline/text/status.h"
#include "tests/unit/pipeline/client/fake_timing.h"

namespace fulcrum::pipeline {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using testing::FakeTiming;
using ::testing::HasSubstr;

/// Fails so many times, then succeeds.
Retrier::Attempt FailsFirst(int failures, const absl::Status& failure, int& attempts) {
  return [=, &attempts] { return ++attempts <= failures ? failure : absl::OkStatus(); };
}

TEST(RetrierTest, RepeatsWhatMayPassWithGrowingJitteredPauses) {
  FakeTiming time;
  int attempts = 0, told = 0;
  Retrier retrier({.first_pause = milliseconds(100), .longest_pause = milliseconds(1000)}, time.timing(), 1,
                  [&](const absl::Status&) { ++told; });
  EXPECT_TRUE(retrier.Call(FailsFirst(7, absl::UnavailableError("away"), attempts)).ok());
  EXPECT_EQ(attempts, 8);
  EXPECT_EQ(told, 1);
  EXPECT_EQ(retrier.repeats(), 7u);
  const std::vector<int> full = {100, 200, 400, 800, 1000, 1000, 1000};
  ASSERT_EQ(time.pauses.size(), full.size());
  std::set<double> shares;
  for (std::size_t i = 0; i < full.size(); ++i) {
    EXPECT_LE(time.pauses[i].count(), full[i]);
    EXPECT_GE(time.pauses[i].count(), full[i] / 2);
    shares.insert(static_cast<double>(time.pauses[i].count()) / full[i]);
  }
  EXPECT_GT(shares.size(), 3u) << "pauses must differ, or all workers come back at once";
}

TEST(RetrierTest, WaitsAsLongAsTheServerAsksForAndNoLongerThanItsPolicy) {
  FakeTiming time;
  int attempts = 0;
  Retrier retrier({.first_pause = milliseconds(100), .longest_pause = milliseconds(1000)}, time.timing(), 1);
  const absl::Status asks = WithRetryDelay(absl::ResourceExhaustedError("slow down"), milliseconds(700));
  EXPECT_TRUE(retrier.Call(FailsFirst(1, asks, attempts)).ok());
  attempts = 0;
  const absl::Status hour = WithRetryDelay(absl::ResourceExhaustedError("slow down"), milliseconds(3'600'000));
  EXPECT_TRUE(retrier.Call(FailsFirst(1, hour, attempts)).ok());
  EXPECT_THAT(time.pauses, ElementsAre(milliseconds(700), milliseconds(1000)));
}

TEST(RetrierTest, PausesDifferFromSeedToSeed) {
  const auto pauses = [](std::uint64_t seed) {
    FakeTiming time;
    int attempts = 0;
    Retrier retrier({}, time.timing(), seed);
    EXPECT_TRUE(retrier.Call(FailsFirst(5, absl::DeadlineExceededError("slow"), attempts)).ok());
    return time.pauses;
  };
  EXPECT_EQ(pauses(1), pauses(1));
  EXPECT_NE(pauses(1), pauses(2));
}

TEST(RetrierTest, OtherErrorsComeBackAtOnce) {
  for (const absl::Status& error : {absl::NotFoundError("x"), absl::InvalidArgumentError("x"), absl::AbortedError("x"),
                                    absl::UnauthenticatedError("x")}) {
    FakeTiming time;
    int attempts = 0;
    Retrier retrier({}, time.timing(), 1);
    EXPECT_EQ(retrier.Call(FailsFirst(1, error, attempts)), error);
    EXPECT_EQ(attempts, 1);
  }
}

TEST(RetrierTest, GivesUpWithTheLastErrorWhenItsTimeIsOver) {
  FakeTiming time;
  int attempts = 0;
  Retrier retrier({.first_pause = milliseconds(100), .give_up_after = milliseconds(1000)}, time.timing(), 1);
  EXPECT_EQ(retrier.Call(FailsFirst(1'000, absl::UnavailableError("away"), attempts)), absl::UnavailableError("away"));
  EXPECT_GT(attempts, 3);
  EXPECT_LT(attempts, 30);
  EXPECT_GE(time.elapsed, milliseconds(1000));
}

TEST(RetrierTest, BrokenOffPauseIsCancelled) {
  FakeTiming time;
  time.sleeps_left = 2;
  int attempts = 0;
  Retrier retrier({}, time.timing(), 1);
  const absl::Status status = retrier.Call(FailsFirst(100, absl::UnavailableError("away"), attempts));
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(std::string(status.message()), HasSubstr("away"));
  EXPECT_EQ(attempts, 3);
}

TEST(RequestIdsTest, NeverTheSameWithinOrAcrossStarts) {
  std::set<std::string> seen;
  for (int start = 0; start < 20; ++start) {
    RequestIds ids;
    for (int i = 0; i < 20; ++i) {
      const std::string id = ids.Next();
      EXPECT_LE(id.size(), 120u) << "the server appends '/' and a place, and takes 128";
      EXPECT_TRUE(seen.insert(id).second) << id;
    }
  }
}

TEST(LeaseWatchTest, RenewsBeforeHalfOfTheLeaseIsGone) {
  const auto start = LeaseWatch::TimePoint() + std::chrono::hours(1);
  const absl::Time wall = absl::FromUnixSeconds(1'000'000);
  LeaseWatch watch;
  EXPECT_FALSE(watch.IsDue(start + std::chrono::hours(100)));
  watch.Note(wall + absl::Seconds(20), wall, start);
  EXPECT_FALSE(watch.IsDue(start + std::chrono::seconds(7)));
  EXPECT_TRUE(watch.IsDue(start + std::chrono::seconds(10)));
  watch.Clear();
  EXPECT_FALSE(watch.IsDue(start + std::chrono::hours(1)));
}

TEST(LeaseWatchTest, TrustsNoClockTooFar) {
  const auto start = LeaseWatch::TimePoint() + std::chrono::hours(1);
  const absl::Time wall = absl::FromUnixSeconds(1'000'000);
  LeaseWatch behind, ahead;
  behind.Note(wall + absl::Hours(24), wall, start);
  EXPECT_TRUE(behind.IsDue(start + std::chrono::seconds(61)));
  ahead.Note(wall - absl::Hours(24), wall, start);
  EXPECT_FALSE(ahead.IsDue(start)) << "a renewal without end would be the answer to a wrong clock";
  EXPECT_TRUE(ahead.IsDue(start + std::chrono::seconds(1)));
}

}  // namespace
}  // namespace fulcrum::pipeline
