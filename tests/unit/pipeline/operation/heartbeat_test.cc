#include <atomic>
#include <future>
#include <optional>

#include "gtest/gtest.h"
#include "pipeline/operation/watchdog.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::chrono::milliseconds kPeriod{1};

TEST(Heartbeat, TellsOfTheFirstProbeThatFailsAndOfRecovery) {
  std::atomic<bool> well = false;
  std::promise<absl::Status> bad, good;
  std::optional<std::promise<absl::Status>*> next_bad = &bad, next_good = &good;
  Heartbeat heartbeat({{"first", [](auto) { return absl::OkStatus(); }},
                       {"second", [&](auto) { return well ? absl::OkStatus() : absl::UnavailableError("deaf"); }},
                       {"third", [](auto) { return absl::UnavailableError("never asked first"); }}},
                      kPeriod, [&](const absl::Status& status) {
                        auto& waiting = status.message() == "second: deaf" ? next_bad : next_good;
                        if (waiting) (*waiting)->set_value(status);
                        waiting.reset();
                      });
  EXPECT_EQ(bad.get_future().get(), absl::UnavailableError("second: deaf"));
  well = true;
  EXPECT_EQ(good.get_future().get(), absl::UnavailableError("third: never asked first"));
  heartbeat.Stop();
  EXPECT_EQ(heartbeat.last(), absl::UnavailableError("third: never asked first"));
}

TEST(Heartbeat, IsAliveAsLongAsThereAreGoodBeats) {
  std::promise<void> beat;
  std::atomic<int> beats = 0;
  Heartbeat heartbeat({{"part", [](auto) { return absl::OkStatus(); }}}, std::chrono::hours(1),
                      [&](const absl::Status&) {
                        if (++beats == 1) beat.set_value();
                      });
  beat.get_future().wait();
  EXPECT_TRUE(heartbeat.Alive().ok());
  EXPECT_TRUE(heartbeat.last().ok());
}

}  // namespace
}  // namespace fulcrum::pipeline
