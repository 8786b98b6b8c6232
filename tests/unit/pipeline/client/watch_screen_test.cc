#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/client/campaign_text.h"

namespace fulcrum::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

void Follow(WatchScreen& screen, const std::string& text) {
  v1::CampaignEvent event;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &event));
  screen.Follow(event);
}

TEST(CurvePlotTest, BarsRiseFromTheSmallestToTheLargest) {
  const std::string plot = DrawCurve({{10, 0.5}, {20, 0.75}, {30, 1}}, "labels", {.width = 10, .height = 2});
  EXPECT_THAT(absl::StrSplit(plot, '\n'),
              ElementsAre(" 100.00% ┤ ▁█", "  50.00% ┤▁██", "         └───", "          10 to 30 labels", ""));
}

TEST(CurvePlotTest, MorePointsThanColumnsAreAveraged) {
  std::vector<PlotPoint> points;
  for (int i = 0; i < 100; ++i) points.push_back({static_cast<double>(i), i < 50 ? 0.0 : 1.0});
  const std::string plot = DrawCurve(points, "labels", {.width = 4, .height = 2});
  EXPECT_THAT(plot, AllOf(HasSubstr("┤  ██\n"), HasSubstr("┤▁▁██\n"), HasSubstr("0 to 99 labels")));
  EXPECT_EQ(DrawCurve({}, "labels"), "");
}

TEST(WatchScreenTest, ShowsTheRoundAndTheAccuracyOnceARound) {
  WatchScreen screen;
  Follow(screen, "campaign { name: 'c' state: CAMPAIGN_STATE_WAITING round: 2 round_items: 10 labels: 15 }");
  Follow(screen, "model { round: 1 labels: 5 accuracy: 0.5 changed_share: 1 }");
  Follow(screen, "model { round: 2 labels: 10 accuracy: 0.9 changed_share: 0.2 }");
  Follow(screen, "model { round: 2 labels: 10 accuracy: 0.9 changed_share: 0.2 }");
  Follow(screen, "labels { labels: 18 round_settled: 5 round_items: 10 }");
  const std::string picture = screen.Draw(60);
  EXPECT_THAT(picture, AllOf(HasSubstr("c: waiting\n"), HasSubstr("[##########..........] 5 of 10 settled, 18 labels"),
                             HasSubstr("accuracy, now 90.00%"), HasSubstr("└──\n"), HasSubstr("5 to 10 labels")));
}

TEST(WatchScreenTest, WithoutAValidationSetTheChangedShareIsDrawn) {
  WatchScreen screen;
  Follow(screen, "campaign { name: 'c' state: CAMPAIGN_STATE_FAILED state_reason: 'why' }");
  Follow(screen, "model { round: 1 labels: 5 changed_share: 0.25 }");
  EXPECT_THAT(screen.Draw(80),
              AllOf(HasSubstr("c: failed (why)"), HasSubstr("changed, now 25.00%"), Not(HasSubstr("accuracy"))));
}

TEST(WatchScreenTest, NoLineIsWiderThanTheTerminal) {
  WatchScreen screen;
  Follow(screen, "campaign { name: 'a-long-name-for-a-campaign' state: CAMPAIGN_STATE_WAITING }");
  for (int round = 1; round < 200; ++round) {
    Follow(screen, absl::StrCat("model { round: ", round, " labels: ", round, " accuracy: 0.5 }"));
  }
  const std::vector<std::string> lines = absl::StrSplit(screen.Draw(24), '\n');
  for (const std::string& line : lines) {
    EXPECT_LE(std::count_if(line.begin(), line.end(), [](char byte) { return (byte & 0xC0) != 0x80; }), 24) << line;
  }
}

}  // namespace
}  // namespace fulcrum::pipeline
