// Checking changes nothing and finds what was lost or changed; rebuilding replaces the database as a whole.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "arrow/record_batch.h"
#include "arrow/table.h"
#include "stages/core/random.h"
#include "storage/campaign_files.h"
#include "storage/campaign_reader.h"
#include "storage/log/event_log.h"
#include "storage/maintenance/maintenance.h"
#include "storage/pool/pool_writer.h"
#include "tests/unit/stages/ingest/arrow_tables.h"
#include "tests/unit/storage/store_fixture.h"

namespace fulcrum::storage {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

std::string ReadAll(const fs::path& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

/// The content of every file in a folder.
std::map<std::string, std::string> Content(const std::string& folder) {
  std::map<std::string, std::string> content;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) content[entry.path().string()] = ReadAll(entry.path());
  }
  return content;
}

class FsckTest : public StoreTest {
 protected:
  static constexpr int kLabels = 20;

  void SetUp() override {
    Create();
    std::vector<std::string> items;
    for (int i = 0; i < kLabels; ++i) items.push_back(absl::StrCat("item-", i));
    Batch(items);
    for (int i = 0; i < kLabels; ++i) LabelNext("ada", i % 2 == 0 ? "cat" : "dog");
    ASSERT_TRUE(store_->WriteCheckpoint().ok());
  }

  std::string Killed() const { return directory_.File("killed"); }
  std::string Database() const { return Killed() + "/campaign.db"; }
  std::string Wal() const { return Database() + "-wal"; }

  /// The campaign as a process leaves it that was killed: the write-ahead log is still there.
  void CopyAsKilled() {
    fs::remove_all(Killed());
    fs::copy(Folder(), Killed(), fs::copy_options::recursive);
    fs::remove(Database() + "-shm");
    ASSERT_GT(fs::file_size(Wal()), 0u);
  }

  static std::vector<std::string> Problems(const std::string& folder) {
    const auto report = CheckCampaign(folder);
    return report.ok() ? report->problems : std::vector<std::string>{std::string(report.status().message())};
  }

  static std::string Export(const std::string& folder) {
    auto reader = CampaignReader::Open(folder);
    if (!reader.ok()) return reader.status().ToString();
    std::string text;
    const absl::Status status = VisitLabels(**reader, [&](const ExportedLabel& label) {
      AppendLabelCsv(label, text);
      return absl::OkStatus();
    });
    return status.ok() ? text : status.ToString();
  }
};

TEST_F(FsckTest, ChangesNothing) {
  CopyAsKilled();
  const auto before = Content(Killed());
  EXPECT_THAT(Problems(Killed()), IsEmpty());
  EXPECT_EQ(Content(Killed()), before);
}

TEST_F(FsckTest, KeepsTheWriteAheadLogOfAnEmptyDatabaseAndRebuildsFromIt) {
  CopyAsKilled();
  const std::string expected = Export(Folder());
  fs::resize_file(Database(), 0);
  const auto before = Content(Killed());
  EXPECT_THAT(Problems(Killed()), Contains(HasSubstr("is empty, but its write-ahead log is readable")));
  EXPECT_EQ(CampaignStore::Open(Killed()).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(CampaignReader::Open(Killed()).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ReadAll(Wal()), before.at(Wal()));
  ASSERT_TRUE(RebuildCampaign(Killed()).ok());
  EXPECT_THAT(Problems(Killed()), IsEmpty());
  EXPECT_EQ(Export(Killed()), expected);
}

TEST_F(FsckTest, AnEmptyDatabaseWithoutItsLogIsALoss) {
  CopyAsKilled();
  fs::resize_file(Database(), 0);
  fs::remove(Wal());
  EXPECT_THAT(Problems(Killed()),
              Contains(HasSubstr(absl::StrCat(store_->status()->last_sequence, " events are missing"))));
}

TEST_F(FsckTest, AFailedRebuildLeavesTheCampaignAsItWas) {
  store_.reset();
  {
    auto database = SqliteDatabase::Open(CampaignFolder(Folder()).database());
    ASSERT_TRUE(
        database->Execute("DROP TRIGGER event_is_never_changed; UPDATE event SET value='x' WHERE kind=30").ok());
  }
  const auto before = Content(Folder());
  EXPECT_EQ(RebuildCampaign(Folder()).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Content(Folder()), before);
}

TEST_F(FsckTest, ALostEndOfTheLogIsFoundAndCounted) {
  const std::int64_t events = store_->status()->last_sequence;
  CopyAsKilled();
  const std::string wal = ReadAll(Wal());
  for (const double share : {0.9, 0.7, 0.5}) {
    fs::resize_file(Wal(), static_cast<std::uintmax_t>(static_cast<double>(wal.size()) * share));
    const auto report = CheckCampaign(Killed());
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_THAT(report->problems, Contains(HasSubstr(absl::StrCat(events - report->events, " events are missing"))));
    EXPECT_LT(report->events, events);
  }
  std::string flipped = wal;
  flipped[flipped.size() / 2] ^= 4;
  std::ofstream(Wal(), std::ios::binary) << flipped;
  EXPECT_THAT(Problems(Killed()), Contains(HasSubstr("events are missing")));
}

TEST_F(FsckTest, ALossIsStillKnownAfterTheCampaignWasOpened) {
  CopyAsKilled();
  fs::resize_file(Wal(), fs::file_size(Wal()) / 2);
  {
    auto store = CampaignStore::Open(Killed(), Options());
    ASSERT_TRUE(store.ok()) << store.status();
    // The log grows beyond its old end.
    for (int i = 0; i < 200; ++i) {
      ASSERT_TRUE((*store)->Run(ChangeLife, {.life = i % 2 == 0 ? Life::kRunning : Life::kPaused}).ok());
    }
  }
  EXPECT_THAT(Problems(Killed()), Contains(HasSubstr("events are missing")));
  fs::remove(CampaignFolder(Killed()).lost_events());
  EXPECT_THAT(Problems(Killed()), IsEmpty());
}

TEST_F(FsckTest, EveryLossIsReportedAndTheSameOneOnce) {
  CopyAsKilled();
  fs::resize_file(Wal(), fs::file_size(Wal()) / 2);
  std::string first;
  {
    auto store = CampaignStore::Open(Killed(), Options());
    ASSERT_TRUE(store.ok()) << store.status();
    first = (*store)->opening_findings().lost_events;
    EXPECT_THAT(first, HasSubstr("events are missing"));
  }
  // The second loss: the database as it was before the last events.
  fs::copy_file(Database(), directory_.File("before.db"));
  {
    auto store = CampaignStore::Open(Killed(), Options());
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_EQ((*store)->opening_findings().lost_events, first);
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE((*store)->Run(ChangeLife, {.life = i % 2 == 0 ? Life::kRunning : Life::kPaused}).ok());
    }
  }
  fs::copy_file(directory_.File("before.db"), Database(), fs::copy_options::overwrite_existing);
  for (int opened = 0; opened < 2; ++opened) {
    auto store = CampaignStore::Open(Killed(), Options());
    ASSERT_TRUE(store.ok()) << store.status();
    const std::string& both = (*store)->opening_findings().lost_events;
    EXPECT_THAT(both, StartsWith(first));
    EXPECT_EQ(std::count(both.begin(), both.end(), '\n'), 2) << both;
  }
  EXPECT_THAT(Problems(Killed()), SizeIs(2));
}

TEST_F(FsckTest, ADamagedHighWaterFileIsNotALoss) {
  CopyAsKilled();
  std::ofstream(CampaignFolder(Killed()).high_water()) << "damaged";
  {
    auto store = CampaignStore::Open(Killed(), Options());
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_EQ((*store)->opening_findings().lost_events, "");
    EXPECT_THAT((*store)->opening_findings().warning, HasSubstr("is damaged"));
  }
  EXPECT_THAT(Problems(Killed()), IsEmpty());
}

TEST_F(FsckTest, AModelAndARoundKnowOfEventsThatAreMissing) {
  const CampaignFolder folder(Folder());
  ASSERT_TRUE(WriteModelFile(folder, 2, store_->status()->last_sequence, "model").ok());
  directory_.Write("campaign/rounds/000002-scores.parquet", "of a round that was not committed");
  EXPECT_THAT(Problems(Folder()), IsEmpty());
  ASSERT_TRUE(WriteModelFile(folder, 2, store_->status()->last_sequence + 7, "model").ok());
  directory_.Write("campaign/rounds/000003-scores.parquet", "of a round after it");
  EXPECT_THAT(Problems(Folder()), Contains(HasSubstr("at least 7 events are missing")));
  EXPECT_THAT(Problems(Folder()), Contains(HasSubstr("belongs to round 3")));
}

TEST_F(FsckTest, NoFlippedBitChangesAnExportUnnoticed) {
  store_.reset();
  const std::string expected = Export(Folder());
  ASSERT_THAT(expected, HasSubstr("item-7"));
  const std::string path = CampaignFolder(Folder()).database();
  const std::string sound = ReadAll(path);
  Random random(11);
  int found = 0;
  for (int trial = 0; trial < 400; ++trial) {
    std::string flipped = sound;
    flipped[random.Below(flipped.size())] ^= static_cast<char>(1 << random.Below(8));
    std::ofstream(path, std::ios::binary) << flipped;
    if (!Problems(Folder()).empty()) {
      ++found;
    } else {
      ASSERT_EQ(Export(Folder()), expected) << "trial " << trial;
    }
    for (const char* left : {"-wal", "-shm"}) fs::remove(path + left);
  }
  EXPECT_GT(found, 20) << "otherwise the test tried little";
}

TEST_F(FsckTest, ACleanStopLeavesACompleteDatabase) {
  auto reader = CampaignReader::Open(Folder());
  ASSERT_TRUE((*reader)->CatchUp().ok());
  const std::string expected = Export(Folder());
  store_.reset();
  const std::string alone = directory_.File("alone");
  ASSERT_TRUE(CampaignFolder(alone).Create().ok());
  fs::copy_file(CampaignFolder(Folder()).database(), CampaignFolder(alone).database());
  EXPECT_EQ(Export(alone), expected);
}

TEST_F(FsckTest, FindsWhatKeepsTheNextRoundFromRunning) {
  const CampaignFolder folder(Folder());
  ASSERT_TRUE(store_->Run(AdvanceRound, {.round = 1, .forced = "enough"}).ok());
  const auto files = WriteRoundFiles(folder, 2, {{"a"}, {"x"}, {true}, {0.5}}, {{"a"}, {"x"}, {0.5}, {1.5}});
  ASSERT_TRUE(store_->Run(CommitBatch, {.round = 2, .items = {{"a", 0}}, .files = *files}).ok());
  EXPECT_THAT(Problems(Folder()), IsEmpty());
  const std::string scores = ReadAll(folder.File((*files)[0]));
  directory_.Write("campaign/" + (*files)[0], scores.substr(0, scores.size() / 2));
  EXPECT_THAT(Problems(Folder()), Contains(HasSubstr("scores cannot be read")));
  directory_.Write("campaign/" + (*files)[0], scores);
  EXPECT_THAT(Problems(Folder()), IsEmpty());
  directory_.Write("campaign/rounds/000002-landmarks.csv", "class,row\n0,nothing\n");
  EXPECT_THAT(Problems(Folder()), Contains(HasSubstr("landmarks.csv' is damaged")));
  fs::remove(folder.File("rounds/000002-landmarks.csv"));
  // The same for a round that another one followed.
  ASSERT_TRUE(store_->Run(AdvanceRound, {.round = 2, .forced = "enough"}).ok());
  ASSERT_TRUE(store_->Run(CommitBatch, {.round = 3, .items = {{"b", 0}}}).ok());
  EXPECT_THAT(Problems(Folder()), IsEmpty());
  directory_.Write("campaign/" + (*files)[0], scores.substr(0, scores.size() / 2));
  EXPECT_THAT(Problems(Folder()), Contains(HasSubstr("round 2: its scores cannot be read")));
}

TEST_F(FsckTest, FindsWhatKeepsThePoolFromOpening) {
  const CampaignFolder folder(Folder());
  const auto batch = ingest::TableOf({{"id", ingest::Texts({"a", "b"})}, {"x", ingest::Floats({1, 2})}})
                         ->CombineChunksToBatch()
                         .ValueOrDie();
  const auto roles = ingest::AssignRoles(*batch->schema(), {}, "test").value();
  {
    const auto writer = PoolWriter::Open(folder.imported_pool(), ShapeFor(roles), roles.FeatureNames()).value();
    ASSERT_TRUE(writer->Append(BuildBlock(*batch, roles, {}).value(), [](std::uint64_t) { return "test"; }).ok());
    ASSERT_TRUE(writer->Commit(1).ok());
  }
  EXPECT_THAT(Problems(Folder()), IsEmpty());
  EXPECT_THAT(CheckCampaign(Folder())->notes, IsEmpty());
  fs::rename(folder.imported_pool(), directory_.File("away"));
  EXPECT_THAT(Problems(Folder()), IsEmpty());
  EXPECT_THAT(CheckCampaign(Folder())->notes, ElementsAre(HasSubstr("none found")));
  fs::rename(directory_.File("away"), folder.imported_pool());
  const std::string statistics = "pool/imported/" + ReadManifest(folder.imported_pool())->statistics_file;
  const std::string sound = ReadAll(folder.File(statistics));
  directory_.Write("campaign/" + statistics, sound.substr(0, sound.size() / 2));
  EXPECT_THAT(Problems(Folder()), Contains(HasSubstr("pool: ")));
  directory_.Write("campaign/" + statistics, sound);
  EXPECT_THAT(Problems(Folder()), IsEmpty());
  fs::remove(folder.imported_pool() + "/" + kPoolManifestName);
  EXPECT_THAT(Problems(Folder()), Contains(HasSubstr("has no manifest")));
}

TEST_F(FsckTest, ACampaignFromBeforeThereWereChecksumsIsReadAndUpgraded) {
  const CampaignFolder old(directory_.File("old"));
  ASSERT_TRUE(old.Create().ok());
  {
    auto database = SqliteDatabase::Open(old.database());
    ASSERT_TRUE(Migrate(*database, 2).ok());
    auto log = EventLog::Open(*database);
    auto reader = CampaignReader::Open(Folder());
    ASSERT_TRUE(
        (*reader)->VisitEvents(1, kEndOfLog, [&](const Event& event) { return log->Append(EncodeEvent(event)); }).ok());
  }
  const std::string expected = Export(Folder());
  EXPECT_EQ(Export(old.path()), expected);
  EXPECT_THAT(Problems(old.path()), IsEmpty());
  ASSERT_TRUE(CampaignStore::Open(old.path(), Options()).ok());
  EXPECT_EQ(Export(old.path()), expected);
  EXPECT_THAT(Problems(old.path()), IsEmpty());
}

}  // namespace
}  // namespace fulcrum::storage
