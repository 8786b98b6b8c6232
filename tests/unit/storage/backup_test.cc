#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "storage/campaign_reader.h"
#include "storage/maintenance/maintenance.h"
#include "storage/rules/round_rules.h"
#include "tests/unit/storage/store_fixture.h"

namespace fulcrum::storage {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class BackupTest : public StoreTest {
 protected:
  void SetUp() override { Create(); }
};

TEST_F(BackupTest, EveryBackupOfABusyCampaignIsOneMomentOfIt) {
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (int i = 0; !stop; ++i) {
      store_->Run(ImportLabels, {.source = "s", .request_id = absl::StrCat(i), .labels = {{"a", "x"}, {"b", "y"}}})
          .IgnoreError();
    }
  });
  for (int i = 0; i < 5; ++i) {
    const std::int64_t before = store_->status()->last_sequence;
    const auto report = BackUpCampaign(Folder(), directory_.File("backup"));
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_GE(report->events, before);
    const std::string again = directory_.File(absl::StrCat("again", i));
    const auto restored = RestoreCampaign(directory_.File("backup"), again);
    ASSERT_TRUE(restored.ok()) << restored.status();
    EXPECT_EQ(restored->events, report->events);
    // Two labels were imported together, so no moment has an odd number of them.
    auto reader = CampaignReader::Open(again);
    ASSERT_TRUE(reader.ok() && (*reader)->CatchUp().ok());
    EXPECT_EQ((*reader)->state().totals().imported % 2, 0);
  }
  stop = true;
  writer.join();
}

TEST_F(BackupTest, AFailedBackupLeavesTheOldOne) {
  ASSERT_TRUE(BackUpCampaign(Folder(), directory_.File("backup")).ok());
  const auto size = std::filesystem::file_size(directory_.File("backup"));
  ASSERT_TRUE(store_->Run(CommitBatch, {.round = 1, .items = {{"a", 0}}, .files = {"rounds/absent"}}).ok());
  const auto report = BackUpCampaign(Folder(), directory_.File("backup"));
  EXPECT_EQ(report.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(report.status().message()), HasSubstr("rounds/absent"));
  EXPECT_EQ(std::filesystem::file_size(directory_.File("backup")), size);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_.path()), {}), 2);
}

TEST_F(BackupTest, AppendedRowsAreIncludedBecauseNothingElseHasThem) {
  std::filesystem::create_directories(directory_.File("campaign/pool/appended-00001"));
  directory_.Write("campaign/pool/part-00000.arrow", "from sources");
  directory_.Write("campaign/pool/appended-00001/part-00000.arrow", "from a client");
  ASSERT_TRUE(store_
                  ->Run(AppendRows, {.by = "root",
                                     .request_id = "a",
                                     .content = "x",
                                     .folder = "pool/appended-00001",
                                     .rows = 1,
                                     .answer = "{}"})
                  .ok());
  const auto report = BackUpCampaign(Folder(), directory_.File("backup"), {.with_pool = false});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->not_included, ::testing::ElementsAre("pool/part-00000.arrow"));
  ASSERT_TRUE(RestoreCampaign(directory_.File("backup"), directory_.File("again")).ok());
  EXPECT_TRUE(std::filesystem::exists(directory_.File("again/pool/appended-00001/part-00000.arrow")));
  EXPECT_THAT(CheckCampaign(directory_.File("again"))->problems, IsEmpty());
  std::filesystem::remove_all(directory_.File("again/pool/appended-00001"));
  EXPECT_THAT(CheckCampaign(directory_.File("again"))->problems,
              ::testing::ElementsAre(HasSubstr("pool/appended-00001 is missing")));
}

TEST_F(BackupTest, OnlyABackupIsRestored) {
  store_.reset();
  const auto campaign = RestoreCampaign(CampaignFolder(Folder()).database(), directory_.File("again"));
  EXPECT_EQ(campaign.status().code(), absl::StatusCode::kFailedPrecondition);
  const std::string text = directory_.Write("notes.txt", std::string(5000, 'x'));
  EXPECT_EQ(RestoreCampaign(text, directory_.File("again")).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(std::filesystem::exists(directory_.File("again")));
}

TEST_F(BackupTest, AnEmptyFolderMayBeFilledAndAFullOneNot) {
  ASSERT_TRUE(BackUpCampaign(Folder(), directory_.File("backup")).ok());
  std::filesystem::create_directory(directory_.File("empty"));
  EXPECT_TRUE(RestoreCampaign(directory_.File("backup"), directory_.File("empty/")).ok());
  EXPECT_THAT(CheckCampaign(directory_.File("empty"))->problems, IsEmpty());
  EXPECT_EQ(RestoreCampaign(directory_.File("backup"), Folder()).status().code(), absl::StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace fulcrum::storage
