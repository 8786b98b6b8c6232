// `fulcrum fsck`, `backup`, `restore` and `export` on a campaign that was made through the store.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "storage/campaign_files.h"
#include "storage/campaign_store.h"
#include "storage/rules/label_rules.h"
#include "storage/rules/lease_rules.h"
#include "storage/sqlite/sqlite.h"
#include "tests/integration/program_fixture.h"

namespace fulcrum::testing {
namespace {

using storage::CampaignStore;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CampaignCommandsTest : public ProgramTest {
 protected:
  std::string Campaign() const { return File("campaign"); }
  std::string Database() const { return File("campaign/campaign.db"); }

  /// Two items with files, a model, a label, a changed one and an imported one. Stays open, as under a daemon.
  void MakeCampaign() {
    auto created = CampaignStore::Create(Campaign(), {});
    ASSERT_TRUE(created.ok()) << created.status();
    store_ = *std::move(created);
    const auto files =
        storage::WriteRoundFiles(store_->folder(), 1, {{"a", "b"}, {"x", "y"}, {false, false}, {0.5, 0.25}},
                                 {{"a", "b"}, {"x", "y"}, {0.5, 0.25}, {1, 0.5}});
    ASSERT_TRUE(files.ok()) << files.status();
    ASSERT_TRUE(
        store_->Run(storage::CommitBatch, {.round = 1, .items = {{"a", 0.5}, {"b", 0.5}}, .files = *files}).ok());
    const auto model = storage::WriteModelFile(store_->folder(), 1, 2, "a model");
    ASSERT_TRUE(model.ok()) << model.status();
    ASSERT_TRUE(store_->Run(storage::RecordModel, *model).ok());
    const auto tasks = store_->Run(storage::AcquireTasks, {.annotator = "ada, \"A.\"", .request_id = "q", .most = 2});
    ASSERT_TRUE(tasks.ok() && tasks->leases.size() == 2);
    for (const storage::GrantedLease& lease : tasks->leases) {
      ASSERT_TRUE(store_
                      ->Run(storage::SubmitLabel, {.annotator = "ada, \"A.\"",
                                                   .request_id = "s-" + lease.item,
                                                   .lease = lease.lease,
                                                   .epoch = lease.epoch,
                                                   .item = lease.item,
                                                   .value = "cat"})
                      .ok());
    }
    ASSERT_TRUE(
        store_->Run(storage::ChangeLabel, {.annotator = "ada, \"A.\"", .request_id = "c", .item = "b", .value = "dog"})
            .ok());
    ASSERT_TRUE(
        store_->Run(storage::ImportLabels, {.source = "gold", .request_id = "i", .labels = {{"z", "cow"}}}).ok());
    ASSERT_TRUE(store_->WriteCheckpoint().ok());
    folder_.Write("campaign/pool/part-0.arrow", "the pool");
  }

  std::unique_ptr<CampaignStore> store_;
};

TEST_F(CampaignCommandsTest, FsckFindsAndRepairsDerivedTables) {
  MakeCampaign();
  const ProcessResult running = Run({"fsck", Campaign()});
  EXPECT_EQ(running.exit_code, 0) << running.standard_error << running.standard_output;
  EXPECT_THAT(running.standard_output, HasSubstr("2 labels, 3 items, 1 rounds, 1 models"));
  const ProcessResult held = Run({"fsck", Campaign(), "--rebuild"});
  EXPECT_EQ(held.exit_code, 75);
  EXPECT_THAT(held.standard_error, HasSubstr("another process"));
  store_.reset();
  {
    auto database = storage::SqliteDatabase::Open(Database());
    ASSERT_TRUE(database->Execute("UPDATE item SET value='forged' WHERE item='a'").ok());
  }
  const ProcessResult wrong = Run({"fsck", Campaign()});
  EXPECT_EQ(wrong.exit_code, 65);
  EXPECT_THAT(wrong.standard_output, HasSubstr("forged"));
  EXPECT_THAT(wrong.standard_error, HasSubstr("--rebuild"));
  EXPECT_EQ(Run({"fsck", Campaign(), "--rebuild"}).exit_code, 0);
  EXPECT_EQ(Run({"fsck", Campaign()}).exit_code, 0);
}

TEST_F(CampaignCommandsTest, FsckFindsWhatRebuildingCannotRepair) {
  MakeCampaign();
  store_.reset();
  folder_.Write("campaign/models/000001-000000000002.model", "a forgery");
  std::filesystem::remove(File("campaign/rounds/000001-batch.parquet"));
  {
    auto database = storage::SqliteDatabase::Open(Database());
    ASSERT_TRUE(database->Execute("DROP TRIGGER event_is_never_changed").ok());
    ASSERT_TRUE(database->Execute("UPDATE event SET epoch=0 WHERE kind=20").ok());
  }
  const ProcessResult result = Run({"fsck", Campaign()});
  EXPECT_EQ(result.exit_code, 65);
  EXPECT_THAT(result.standard_output, HasSubstr("event_is_never_changed"));
  EXPECT_THAT(result.standard_output, HasSubstr("cannot have happened"));
  EXPECT_EQ(Run({"fsck", Campaign(), "--rebuild"}).exit_code, 65);
}

TEST_F(CampaignCommandsTest, FilesThatAreDamagedOrMissingAreNamed) {
  MakeCampaign();
  folder_.Write("campaign/models/000001-000000000002.model", "a forgery");
  std::filesystem::remove(File("campaign/rounds/000001-batch.parquet"));
  WritePool(50);
  ASSERT_EQ(Run({"import", File("pool.csv"), "--out", File("campaign/pool/imported")}).exit_code, 0);
  std::string rows = Read("campaign/pool/imported/part-00000.arrow");
  rows[rows.size() / 2] ^= 1;
  folder_.Write("campaign/pool/imported/part-00000.arrow", rows);
  const ProcessResult result = Run({"fsck", Campaign()});
  EXPECT_EQ(result.exit_code, 65);
  EXPECT_THAT(result.standard_output, HasSubstr("pool/imported/part-00000.arrow', block 0"));
  EXPECT_THAT(result.standard_output, HasSubstr("000001-000000000002.model is damaged"));
  EXPECT_THAT(result.standard_output, HasSubstr("000001-batch.parquet is missing"));
}

TEST_F(CampaignCommandsTest, ABackupOfARunningCampaignIsRestoredWhole) {
  MakeCampaign();
  const ProcessResult backup = Run({"backup", Campaign(), File("birds.fulcrum"), "--without-pool"});
  ASSERT_EQ(backup.exit_code, 0) << backup.standard_error;
  EXPECT_THAT(backup.standard_output, HasSubstr("3 files"));
  EXPECT_THAT(backup.standard_output, HasSubstr("not included: 1 files of the pool"));
  // What comes later is not in it.
  ASSERT_TRUE(store_->Run(storage::ChangeLife, {.life = storage::Life::kRunning}).ok());
  EXPECT_THAT(Files(), ElementsAre("birds.fulcrum", "campaign"));

  const ProcessResult restore = Run({"restore", File("birds.fulcrum"), File("again")});
  ASSERT_EQ(restore.exit_code, 0) << restore.standard_error;
  EXPECT_EQ(Run({"fsck", File("again")}).exit_code, 0);
  EXPECT_EQ(Read("again/models/000001-000000000002.model"), "a model");
  EXPECT_EQ(Read("again/rounds/000001-batch.parquet"), Read("campaign/rounds/000001-batch.parquet"));
  EXPECT_FALSE(std::filesystem::exists(File("again/pool/part-0.arrow")));
  EXPECT_EQ(Run({"export", File("again"), "--out", "-"}).standard_output,
            Run({"export", Campaign(), "--out", "-"}).standard_output);
  auto reopened = CampaignStore::Open(File("again"));
  ASSERT_TRUE(reopened.ok()) << reopened.status();
  EXPECT_EQ((*reopened)->status()->life, storage::Life::kCreated);
  EXPECT_EQ((*reopened)->status()->totals.labels, 2);
  EXPECT_EQ(Run({"restore", File("birds.fulcrum"), Campaign()}).exit_code, 65);
}

TEST_F(CampaignCommandsTest, ABackupWithThePoolHoldsIt) {
  MakeCampaign();
  ASSERT_EQ(Run({"backup", Campaign(), File("b")}).exit_code, 0);
  ASSERT_EQ(Run({"restore", File("b"), File("again")}).exit_code, 0);
  EXPECT_EQ(Read("again/pool/part-0.arrow"), "the pool");
}

TEST_F(CampaignCommandsTest, ADamagedBackupRestoresNothing) {
  MakeCampaign();
  ASSERT_EQ(Run({"backup", Campaign(), File("b")}).exit_code, 0);
  {
    auto backup = storage::SqliteDatabase::Open(File("b"), {.write_ahead_log = false});
    ASSERT_TRUE(backup->Execute("UPDATE backup_piece SET bytes=x'00' WHERE path LIKE 'models%'").ok());
  }
  const ProcessResult result = Run({"restore", File("b"), File("again")});
  EXPECT_EQ(result.exit_code, 65);
  EXPECT_THAT(result.standard_error, HasSubstr("damaged"));
  EXPECT_THAT(Files(), ElementsAre("b", "campaign"));
}

TEST_F(CampaignCommandsTest, ABackupCannotWriteOutsideItsFolder) {
  MakeCampaign();
  ASSERT_EQ(Run({"backup", Campaign(), File("b")}).exit_code, 0);
  {
    auto backup = storage::SqliteDatabase::Open(File("b"), {.write_ahead_log = false});
    ASSERT_TRUE(backup
                    ->Execute("UPDATE backup_piece SET path='models/../../evil' WHERE path LIKE 'models%';"
                              "UPDATE backup_list SET path='models/../../evil' WHERE path LIKE 'models%'")
                    .ok());
  }
  EXPECT_EQ(Run({"restore", File("b"), File("again")}).exit_code, 2);
  EXPECT_THAT(Files(), ElementsAre("b", "campaign"));
}

TEST_F(CampaignCommandsTest, ExportTellsWhereLabelsComeFrom) {
  MakeCampaign();
  const ProcessResult result = Run({"export", Campaign(), "--out", "-"});
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_THAT(result.standard_output,
              HasSubstr("sequence,kind,id,label,annotator,time,lease_id,epoch,slot,round,cost,late,request_id,counts,"
                        "item_state,decision,agreement,confidence,annotator_accuracy,suggested\n"));
  EXPECT_THAT(result.standard_output, HasSubstr(",label,a,cat,\"ada, \"\"A.\"\"\","));
  EXPECT_THAT(result.standard_output, HasSubstr(",1,0,1,0.5,false,s-a,true,labeled,cat,1,1,,\n"));
  // b was changed: what was said first no longer counts, and costs nothing a second time.
  EXPECT_THAT(result.standard_output, HasSubstr(",1,0,1,0.5,false,s-b,false,labeled,dog,1,1,,\n"));
  EXPECT_THAT(result.standard_output, HasSubstr(",0,0,0,0,0,false,c,true,labeled,dog,1,1,,\n"));
  EXPECT_THAT(result.standard_output, HasSubstr("import,z,cow,gold,"));
}

TEST_F(CampaignCommandsTest, ExportWritesTheFormatOfTheFilesName) {
  MakeCampaign();
  ASSERT_EQ(Run({"export", Campaign(), "--out", File("labels.parquet")}).exit_code, 0);
  EXPECT_THAT(Read("labels.parquet").substr(0, 4), "PAR1");
  ASSERT_EQ(Run({"export", Campaign(), "--out", File("labels.csv.gz")}).exit_code, 0);
  EXPECT_EQ(Read("labels.csv.gz").substr(0, 2), "\x1f\x8b");
}

TEST_F(CampaignCommandsTest, AFolderThatIsNoCampaignIsNamed) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"fsck", File("absent")},
                                                {"backup", File("absent"), File("b")},
                                                {"export", File("absent"), "--out", "-"},
                                                {"restore", File("absent"), File("again")}}) {
    const ProcessResult result = Run(words);
    EXPECT_EQ(result.exit_code, 65) << ::testing::PrintToString(words);
    EXPECT_THAT(result.standard_error, HasSubstr("absent"));
  }
}

}  // namespace
}  // namespace fulcrum::testing
