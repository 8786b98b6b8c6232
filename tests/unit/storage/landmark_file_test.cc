#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage/campaign_files.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::storage {
namespace {

class LandmarkFileTest : public ::testing::Test {
 protected:
  LandmarkFileTest() : folder_(directory_.File("campaign")) { EXPECT_TRUE(folder_.Create().ok()); }

  const testing::TemporaryDirectory directory_;
  const CampaignFolder folder_;
};

TEST_F(LandmarkFileTest, LandmarksComeBackAsTheyWere) {
  const LandmarksByClass landmarks = {{-1, {7}}, {0, {1, 5, 4000000000}}, {3, {2}}};
  const auto name = WriteLandmarkFile(folder_, 12, landmarks);
  ASSERT_TRUE(name.ok()) << name.status();
  EXPECT_EQ(*name, "rounds/000012-landmarks.csv");
  EXPECT_EQ(*ReadLandmarkFile(folder_, 12, 4000000001), landmarks);
}

TEST_F(LandmarkFileTest, ARoundWithoutAnyHasNone) {
  EXPECT_TRUE(ReadLandmarkFile(folder_, 1, 10)->empty());
}

TEST_F(LandmarkFileTest, WhatIsDamagedIsNotTaken) {
  for (const char* text :
       {"", "class,row\n1\n", "class,row\n1,x\n", "row\n1,2\n", "class,row\n1,10\n", "class,row\n1,5\n1,4\n"}) {
    directory_.Write("campaign/rounds/000001-landmarks.csv", text);
    const auto landmarks = ReadLandmarkFile(folder_, 1, 10);
    ASSERT_EQ(landmarks.status().code(), absl::StatusCode::kDataLoss) << text;
    EXPECT_THAT(std::string(landmarks.status().message()), ::testing::HasSubstr("000001-landmarks.csv"));
  }
}

}  // namespace
}  // namespace fulcrum::storage
