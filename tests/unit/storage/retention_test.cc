#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_format.h"
#include "storage/campaign_folder.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::storage {
namespace {

class RetentionTest : public ::testing::Test {
 protected:
  RetentionTest() : folder_(directory_.File("campaign")) {
    EXPECT_TRUE(folder_.Create().ok());
    for (int round = 1; round <= 5; ++round) {
      for (const std::string& name : {Scores(round), Batch(round), Model(round)}) {
        EXPECT_TRUE(ReplaceFile(folder_.File(name), "content").ok());
      }
    }
  }

  static std::string Scores(int round) { return absl::StrFormat("rounds/%06d-scores.parquet", round); }
  static std::string Batch(int round) { return absl::StrFormat("rounds/%06d-batch.parquet", round); }
  static std::string Model(int round) { return absl::StrFormat("models/%06d-%012d.model", round, 10 * round); }
  bool Exists(const std::string& name) const { return std::filesystem::exists(folder_.File(name)); }

  testing::TemporaryDirectory directory_;
  CampaignFolder folder_;
};

TEST_F(RetentionTest, KeepsTheLastModelsOfAStream) {
  const auto stream = [](int round) { return absl::StrFormat("rounds/%06d-stream.model", round); };
  for (int round = 1; round <= 5; ++round) ASSERT_TRUE(ReplaceFile(folder_.File(stream(round)), "content").ok());
  ASSERT_TRUE(RemoveOldFiles(folder_, {.streams = 2}, 5).ok());
  for (int round = 1; round <= 5; ++round) {
    EXPECT_EQ(Exists(stream(round)), round > 3) << round;
    EXPECT_EQ(WasRemoved(folder_, stream(round)), round <= 3) << round;
    EXPECT_TRUE(Exists(Scores(round)) && Exists(Model(round)));
  }
}

TEST_F(RetentionTest, KeepsEverythingUnlessTold) {
  ASSERT_TRUE(RemoveOldFiles(folder_, {}, 5).ok());
  for (int round = 1; round <= 5; ++round) {
    EXPECT_TRUE(Exists(Scores(round)) && Exists(Batch(round)) && Exists(Model(round))) << round;
    EXPECT_FALSE(WasRemoved(folder_, Scores(round)));
  }
}

TEST_F(RetentionTest, RemovesWhatIsOlderAndSaysSo) {
  ASSERT_TRUE(RemoveOldFiles(folder_, {.scores = 2, .models = 4}, 5).ok());
  for (int round = 1; round <= 5; ++round) {
    EXPECT_EQ(Exists(Scores(round)), round >= 4) << round;
    EXPECT_EQ(WasRemoved(folder_, Scores(round)), round < 4) << round;
    EXPECT_EQ(Exists(Model(round)), round >= 2) << round;
    EXPECT_EQ(WasRemoved(folder_, Model(round)), round < 2) << round;
    EXPECT_TRUE(Exists(Batch(round))) << "batches say why an example was selected";
    EXPECT_FALSE(WasRemoved(folder_, Batch(round)));
  }
}

TEST_F(RetentionTest, AMoreGenerousRuleDoesNotBringFilesBack) {
  ASSERT_TRUE(RemoveOldFiles(folder_, {.scores = 1}, 5).ok());
  ASSERT_TRUE(RemoveOldFiles(folder_, {.scores = 4}, 5).ok());
  EXPECT_TRUE(WasRemoved(folder_, Scores(4)));
  EXPECT_FALSE(WasRemoved(folder_, Scores(5)));
}

}  // namespace
}  // namespace fulcrum::storage
