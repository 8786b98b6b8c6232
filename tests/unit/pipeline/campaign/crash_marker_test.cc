#include "pipeline/campaign/crash_marker.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/temporary_directory.h"

namespace fulcrum::pipeline {
namespace {

class CrashMarkerTest : public ::testing::Test {
 protected:
  /// As the next process reads it.
  CrashMarker Reopened() const {
    auto marker = CrashMarker::Open(path_);
    EXPECT_TRUE(marker.ok()) << marker.status();
    return *std::move(marker);
  }

  const testing::TemporaryDirectory folder_;
  const std::string path_ = folder_.File("marker");
};

TEST_F(CrashMarkerTest, CountsTheDeathsDuringOnePieceOfWork) {
  for (int deaths = 0; deaths < 4; ++deaths) {
    CrashMarker marker = Reopened();
    EXPECT_EQ(marker.deaths(), deaths);
    EXPECT_EQ(marker.gives_up(), deaths >= 2);
    // The process dies here.
    ASSERT_TRUE(marker.Begin("work", /*durable=*/deaths % 2 == 0).ok());
  }
  EXPECT_EQ(Reopened().work(), "work");
  EXPECT_EQ(Reopened().deaths(), 4) << "it was counted once, not at every look";
}

TEST_F(CrashMarkerTest, AnEndForgetsTheDeathsAndACancellationKeepsThem) {
  CrashMarker marker = Reopened();
  ASSERT_TRUE(marker.Begin("work").ok());
  marker = Reopened();
  ASSERT_TRUE(marker.Begin("work").ok());
  ASSERT_TRUE(marker.Cancel().ok());
  EXPECT_EQ(Reopened().deaths(), 1);
  ASSERT_TRUE(marker.Begin("work").ok());
  ASSERT_TRUE(marker.End().ok());
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_EQ(Reopened().deaths(), 0);
}

TEST_F(CrashMarkerTest, AnotherWorkBeginsAtZero) {
  CrashMarker marker = Reopened();
  ASSERT_TRUE(marker.Begin("work").ok());
  marker = Reopened();
  ASSERT_TRUE(marker.Begin("other").ok());
  EXPECT_EQ(Reopened().deaths(), 1);
}

TEST_F(CrashMarkerTest, AFileThatIsNoMarkerCountsNothing) {
  for (const char* text : {"", "work", "work many running", "work -3 running"}) {
    folder_.Write("marker", text);
    EXPECT_EQ(Reopened().deaths(), 0) << text;
  }
}

}  // namespace
}  // namespace fulcrum::pipeline
