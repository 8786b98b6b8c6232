// A campaign is opened from its checkpoint and the log after it; a checkpoint that cannot be used costs time only.
#include "storage/checkpoint/checkpoint.h"

#include <gmock/gmock.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "storage/campaign_reader.h"
#include "storage/maintenance/maintenance.h"
#include "storage/state/ledger.h"
#include "tests/unit/storage/store_fixture.h"

namespace fulcrum::storage {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class CheckpointTest : public StoreTest {
 protected:
  /// Ten items, of which five are labeled and one is leased; the store is closed.
  void SetUp() override {
    Create();
    std::vector<std::string> items;
    for (int i = 0; i < 10; ++i) items.push_back(absl::StrCat("item-", i));
    Batch(items);
    for (int i = 0; i < 5; ++i) LabelNext("ada", "cat");
    lease_ = Lease("ben");
    ASSERT_TRUE(store_->Run(RecordModel, {.round = 1, .trained_on = 3, .file = "models/x.model"}).ok());
    events_ = store_->status()->last_sequence;
    store_.reset();
  }

  void Execute(const std::string& sql) {
    auto database = SqliteDatabase::Open(CampaignFolder(Folder()).database());
    ASSERT_TRUE(database.ok()) << database.status();
    ASSERT_TRUE(database->Execute(sql).ok()) << sql;
  }
  std::string Query(const std::string& sql) {
    auto database = SqliteDatabase::Open(CampaignFolder(Folder()).database(), {.read_only = true});
    // As in the sqlite3 shell. The store's own connections do not run functions of a schema.
    EXPECT_TRUE(database->Execute("PRAGMA trusted_schema=ON").ok());
    return database->QueryText(sql).value_or("nothing");
  }

  void Open() {
    auto store = CampaignStore::Open(Folder(), Options());
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  /// The campaign is as SetUp left it, and goes on.
  void ExpectComplete() {
    Open();
    EXPECT_EQ(store_->status()->totals.labels, 5);
    EXPECT_EQ(store_->status()->touched_items, 10u);
    EXPECT_EQ(store_->status()->open_slots, 4u);
    EXPECT_EQ(store_->status()->live_leases, 1u);
    EXPECT_EQ(store_->Run(FindModel, {.round = 1})->file, "models/x.model");
    // Requests are known, whether they were before the checkpoint or after it.
    const SubmitRequest request{.annotator = "ben",
                                .request_id = "r",
                                .lease = lease_.lease,
                                .epoch = lease_.epoch,
                                .item = lease_.item,
                                .value = "dog"};
    const auto first = store_->Run(SubmitLabel, request);
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_FALSE(first->late);
    Reopen();
    EXPECT_EQ(store_->Run(SubmitLabel, request)->sequence, first->sequence);
    EXPECT_EQ(store_->status()->totals.labels, 6);
  }

  std::vector<std::string> Problems() {
    store_.reset();
    const auto report = CheckCampaign(Folder());
    EXPECT_TRUE(report.ok()) << report.status();
    std::vector<std::string> problems = report->problems;
    // The model was never written to disk.
    std::erase_if(problems, [](const std::string& line) { return line.find("models/x.model") != std::string::npos; });
    return problems;
  }

  std::vector<std::string> IdsOf(ItemStatus status, const std::string& after = "", std::size_t most = 100) {
    const auto found = store_->Run(ListItems, {.statuses = {status}, .after = after, .most = most});
    EXPECT_TRUE(found.ok()) << found.status();
    std::vector<std::string> ids;
    for (const FoundItem& item : *found) ids.push_back(item.item.id);
    return ids;
  }

  GrantedLease lease_;
  std::int64_t events_ = 0;
};

TEST_F(CheckpointTest, OpeningReadsTheLogAfterTheCheckpointOnly) {
  EXPECT_EQ(Query("SELECT value FROM derived WHERE name='through'"), absl::StrCat(events_));
  Execute("DROP TRIGGER event_is_never_changed; UPDATE event SET value='forged' WHERE kind=30");
  ExpectComplete();
  EXPECT_EQ(ItemNow("item-0").value, "cat");
  EXPECT_THAT(Problems(), Contains(HasSubstr("checksum does not match")));
}

TEST_F(CheckpointTest, ADamagedOneIsIgnoredAndWrittenAgain) {
  for (const char* damage :
       {"UPDATE derived SET value='7' WHERE name='labels'", "DELETE FROM derived WHERE name='life'",
        "UPDATE derived SET value='99' WHERE name='version'", "UPDATE item SET slots='[]' WHERE slots LIKE '%leased%'",
        "UPDATE item SET status='labeled' WHERE status='offered'"}) {
    Execute(damage);
    EXPECT_THAT(Problems(), Not(IsEmpty())) << damage;
    Open();
    EXPECT_EQ(store_->status()->totals.labels, 5) << damage;
    EXPECT_EQ(store_->status()->open_slots, 4u) << damage;
    EXPECT_EQ(store_->status()->live_leases, 1u) << damage;
    EXPECT_THAT(Problems(), IsEmpty()) << damage;
  }
  ExpectComplete();
}

TEST_F(CheckpointTest, OneThatKnowsOfLaterEventsIsAnError) {
  Execute(absl::StrCat("DROP TRIGGER event_is_never_removed; DELETE FROM event WHERE sequence>", events_ - 3));
  const absl::Status status = CampaignStore::Open(Folder(), Options()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("3 events are missing"));
  EXPECT_THAT(Problems(), Contains(HasSubstr("3 events are missing")));
}

TEST_F(CheckpointTest, ARowThatIsDamagedIsDerivedFromTheLogWhenItIsNeeded) {
  Execute("UPDATE item SET value='forged' WHERE item='item-0'");
  Open();
  const auto changed =
      store_->Run(ChangeLabel, {.annotator = "ada", .request_id = "c", .item = "item-0", .value = "dog"});
  EXPECT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ(ItemNow("item-0").value, "dog");
  EXPECT_THAT(Problems(), IsEmpty());
}

TEST_F(CheckpointTest, OfACampaignWithoutOneTheLogIsRead) {
  Execute("DELETE FROM derived; DELETE FROM item; DELETE FROM request; DELETE FROM round; DELETE FROM model");
  ExpectComplete();
  EXPECT_THAT(Problems(), IsEmpty());
}

TEST_F(CheckpointTest, ItemsAreListedFromTheCheckpointAndFromMemory) {
  Open();
  for (const char* item : {"item-6", "item-8"}) {
    ASSERT_TRUE(store_->Run(SetItemAside, {.item = item, .by = "ada", .reason = "blurred"}).ok());
  }
  Reopen();
  EXPECT_THAT(IdsOf(ItemStatus::kSetAside), ElementsAre("item-6", "item-8"));
  // Changed after the checkpoint: one more between those two, and the first one is not set aside any more.
  ASSERT_TRUE(store_->Run(SetItemAside, {.item = "item-7", .by = "ada", .reason = "blurred"}).ok());
  ASSERT_TRUE(store_->Run(ReturnItem, {.item = "item-6", .by = "ada"}).ok());
  EXPECT_THAT(IdsOf(ItemStatus::kSetAside), ElementsAre("item-7", "item-8"));
  EXPECT_THAT(IdsOf(ItemStatus::kSetAside, "item-7"), ElementsAre("item-8"));
  EXPECT_THAT(IdsOf(ItemStatus::kLabeled, "item-1", 2), ElementsAre("item-2", "item-3"));
}

TEST_F(CheckpointTest, FiguresOfItemsAndOfTheLifeAreStored) {
  Open();
  ASSERT_TRUE(store_->Run(ChangeLife, {.life = Life::kRunning, .reason = "started", .by = "ada"}).ok());
  const auto before = store_->status();
  Reopen();
  const auto after = store_->status();
  EXPECT_EQ(after->life, Life::kRunning);
  EXPECT_EQ(after->life_by, "ada");
  EXPECT_EQ(after->items_by_status, before->items_by_status);
  EXPECT_EQ(after->leased_items, 1u);
  EXPECT_GT(after->last_label_sequence, 0);
  EXPECT_EQ(after->last_label_sequence, before->last_label_sequence);
  EXPECT_EQ(Query("SELECT value FROM derived WHERE name='annotators'"), "[[\"ada\"]]");
}

TEST_F(CheckpointTest, TheHistoryOfAnItemIsThatOfTheLog) {
  Open();
  LabelNext("ada", "dog");  // after the checkpoint
  const auto reader = *CampaignReader::Open(Folder());
  std::map<std::string, std::vector<std::int64_t>> expected;
  ASSERT_TRUE(reader
                  ->VisitEvents(1, kEndOfLog,
                                [&](const Event& event) {
                                  const EventRow row = EncodeEvent(event);
                                  if (!row.item.empty()) expected[row.item].push_back(row.sequence);
                                  return absl::OkStatus();
                                })
                  .ok());
  const auto history = [&](const std::string& item, std::size_t most = 100) {
    std::vector<std::int64_t> sequences;
    const auto events = reader->EventsOfItem(item, most);
    EXPECT_TRUE(events.ok()) << events.status();
    for (const EventRow& event : *events) sequences.push_back(event.sequence);
    return sequences;
  };
  EXPECT_EQ(expected.size(), 10u);
  for (const auto& [item, events] : expected) EXPECT_EQ(history(item), events) << item;
  EXPECT_THAT(history("item-0", 1), ElementsAre(expected["item-0"].back()));
  EXPECT_THAT(history("another"), IsEmpty());
  ASSERT_TRUE(store_->WriteCheckpoint().ok());
  for (const auto& [item, events] : expected) EXPECT_EQ(history(item), events) << item;
}

TEST_F(CheckpointTest, TheHistoryOfAnItemIsReadFromAnIndex) {
  // Of an item without events after the checkpoint, it is not looked for in the log.
  Execute("DELETE FROM item_event WHERE item='item-0'");
  const auto reader = *CampaignReader::Open(Folder());
  EXPECT_THAT(*reader->EventsOfItem("item-0", 100), IsEmpty());
  EXPECT_THAT(*reader->EventsOfItem("item-1", 100), Not(IsEmpty()));
  EXPECT_THAT(Problems(), Contains(HasSubstr("table item_event: lacks (item-0, ")));
  ASSERT_TRUE(RebuildCampaign(Folder()).ok());
  EXPECT_THAT(*(*CampaignReader::Open(Folder()))->EventsOfItem("item-0", 100), Not(IsEmpty()));
  EXPECT_THAT(Problems(), IsEmpty());
  Execute("INSERT INTO item_event VALUES ('item-0', 1)");
  EXPECT_THAT(Problems(), ElementsAre(HasSubstr("(item-0, 1)")));
}

TEST_F(CheckpointTest, AHistoryThatIsLongIsIndexedInSeveralGroups) {
  Open();
  // More events than are indexed at once, all of one item.
  for (int i = 0; i < 5000; ++i) {
    const auto changed =
        store_->Run(ChangeLabel,
                    {.annotator = "ada", .request_id = NewId(), .item = "item-0", .value = i % 2 == 0 ? "dog" : "cat"});
    ASSERT_TRUE(changed.ok()) << changed.status();
  }
  Reopen();
  EXPECT_EQ(Query("SELECT count(*) > 5000 FROM item_event WHERE item='item-0'"), "1");
  EXPECT_THAT(Problems(), IsEmpty());
}

TEST_F(CheckpointTest, SlotsAndLeasesAreViewsForSql) {
  EXPECT_EQ(Query("SELECT count(*) FROM slot WHERE status='open'"), "4");
  EXPECT_EQ(Query("SELECT annotator || ' ' || item FROM lease"), absl::StrCat("ben ", lease_.item));
}

TEST(JsonRowsTest, AnyTextIsReadAsItWasWritten) {
  const std::string strange = "a\"b\\c\x01\x1f[],{}\xc3\xa4 '";
  JsonRows rows;
  rows.Row().Add(strange).Add(std::int64_t{-7}).Add(0.1);
  rows.Row();
  rows.Row().Add("");
  const auto parsed = JsonRows::Parse(rows.Take());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(*parsed, ElementsAre(ElementsAre(strange, "-7", "0.1"), IsEmpty(), ElementsAre("")));
  for (const char* damaged : {"", "[", "[[]", "[[\"a]]", "[[\"a\"]", "[[1,]]", "[[]]x", "[[\"\\u00zz\"]]", "{}"}) {
    EXPECT_FALSE(JsonRows::Parse(damaged).ok()) << damaged;
  }
}

}  // namespace
}  // namespace fulcrum::storage
