#include "storage/state/campaign_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fulcrum::storage {
namespace {

using ::testing::HasSubstr;

TEST(CampaignSettingsTest, TextReadsBackAsItWas) {
  CampaignSettings settings;
  settings.overlap = 3;
  settings.margin = 2;
  settings.most_votes = 7;
  settings.lease_time = std::chrono::milliseconds(1234567890123);
  settings.most_attempts = 4;
  settings.bad_item_reports = 2;
  settings.label_budget = 1'000'000'000'000;
  settings.cost_budget = 0.1;
  settings.policy = {.soft_time = std::chrono::seconds(5),
                     .soft_share = 1.0 / 3,
                     .hard_time = std::chrono::seconds(7),
                     .hard_minimum = 9,
                     .learn_soft = true,
                     .learn_hard = true};
  settings.annotators["ada lovelace"] = {.cost = 1.0 / 3, .budget = 1e15};
  settings.annotators["bob=1"] = {.cost = 0, .budget = 0.1, .hourly_cost = 12.5};
  settings.confidence = 0.9;
  settings.first_confidence = 0.8;
  settings.specification = "overlap=99\nspecification=no\n\n";
  const auto read = SettingsFromText(SettingsToText(settings));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, settings);
}

TEST(CampaignSettingsTest, AllThatIsImpossibleIsNamedAtOnce) {
  CampaignSettings settings;
  EXPECT_TRUE(CheckSettings(settings).ok());
  settings.overlap = 0;
  settings.lease_time = {};
  settings.policy.soft_share = 1.5;
  settings.cost_budget = std::nan("");
  settings.annotators["ada"].budget = -1;
  const std::string message(CheckSettings(settings).message());
  for (const char* part : {"overlap is 0", "lease_time", "soft_share is 1.5", "cost_budget", "the budget of 'ada'"}) {
    EXPECT_THAT(message, HasSubstr(part));
  }
}

TEST(CampaignSettingsTest, OtherTextIsDamage) {
  for (const char* text : {"", "overlap=1\n", "colour=1\nspecification=", "overlap=many\nspecification=",
                           "annotator=1\nspecification=", "annotator=1 x ada\nspecification="}) {
    EXPECT_EQ(SettingsFromText(text).status().code(), absl::StatusCode::kDataLoss) << text;
  }
}

}  // namespace
}  // namespace fulcrum::storage
