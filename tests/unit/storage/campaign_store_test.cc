// The store as a whole: who may open it, that answers come after commits, that many threads see one order.
#include "storage/campaign_store.h"

#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "storage/campaign_reader.h"
#include "tests/unit/storage/store_fixture.h"

namespace fulcrum::storage {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CampaignStoreTest : public StoreTest {};

TEST_F(CampaignStoreTest, AFolderHoldsOneCampaignAndOneWriter) {
  Create();
  EXPECT_EQ(CampaignStore::Open(Folder()).status().code(), absl::StatusCode::kUnavailable);
  store_.reset();
  EXPECT_EQ(CampaignStore::Create(Folder(), Settings()).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(CampaignStore::Open(directory_.File("absent")).status().code(), absl::StatusCode::kNotFound);
  Reopen();
}

TEST_F(CampaignStoreTest, AnInterruptedCreationIsDoneAgain) {
  ASSERT_TRUE(CampaignFolder(Folder()).Create().ok());
  ASSERT_TRUE(SqliteDatabase::Open(CampaignFolder(Folder()).database()).ok());
  EXPECT_EQ(CampaignStore::Open(Folder()).status().code(), absl::StatusCode::kFailedPrecondition);
  Create();
}

TEST_F(CampaignStoreTest, ImpossibleSettingsMakeNoFolder) {
  EXPECT_EQ(CampaignStore::Create(Folder(), {.overlap = 0}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CampaignStore::Open(Folder()).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CampaignStoreTest, AnAnswerComesAfterTheCommitThatAReaderSees) {
  Create();
  Batch({"a"});
  auto reader = CampaignReader::Open(Folder());
  ASSERT_TRUE(reader.ok()) << reader.status();
  const GrantedLease lease = Lease("ada");
  std::promise<bool> seen;
  store_->Start(
      SubmitLabel,
      {.annotator = "ada", .request_id = "r", .lease = lease.lease, .epoch = lease.epoch, .item = "a", .value = "cat"},
      [&](absl::StatusOr<LabelAnswer> answer) {
        seen.set_value(answer.ok() && (*reader)->CatchUp().ok() &&
                       (*reader)->state().last_sequence() == answer->sequence);
      });
  EXPECT_TRUE(seen.get_future().get());
}

TEST_F(CampaignStoreTest, ManyThreadsGetEverySlotOnceAndEveryLabelIsThere) {
  Create();
  std::vector<std::string> items;
  for (int i = 0; i < 400; ++i) items.push_back(absl::StrCat("i", i));
  Batch(items);
  std::vector<std::thread> threads;
  std::atomic<int> labels = 0;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const std::string name = absl::StrCat("t", t);
      for (int i = 0;; ++i) {
        const std::string id = std::to_string(i);
        const auto tasks = store_->Run(AcquireTasks, {.annotator = name, .request_id = "a" + id, .most = 2});
        if (!tasks.ok() || tasks->leases.empty()) return;
        for (const GrantedLease& lease : tasks->leases) {
          const auto answer = store_->Run(SubmitLabel, {.annotator = name,
                                                        .request_id = absl::StrCat("s", lease.lease),
                                                        .lease = lease.lease,
                                                        .epoch = lease.epoch,
                                                        .item = lease.item,
                                                        .value = "x"});
          if (answer.ok()) ++labels;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(labels.load(), 400);
  EXPECT_EQ(store_->status()->totals.labels, 400);
  EXPECT_EQ(store_->status()->round_labeled, 400);
  Reopen();
  EXPECT_EQ(store_->status()->totals.labels, 400);
}

TEST_F(CampaignStoreTest, CommitsAreToldWithTheNewFigures) {
  std::atomic<std::int64_t> told = 0;
  StoreOptions options = Options();
  options.on_commit = [&](const CampaignStatus& status) { told = status.last_sequence; };
  auto store = CampaignStore::Create(Folder(), Settings(), options);
  ASSERT_TRUE(store.ok()) << store.status();
  store_ = *std::move(store);
  const auto sequence = store_->Run(ChangeLife, {.life = Life::kRunning});
  ASSERT_TRUE(sequence.ok());
  EXPECT_EQ(told.load(), *sequence);
}

TEST_F(CampaignStoreTest, AValueThatTheDatabaseRefusesFailsNoOtherOperation) {
  Create();
  Batch({"first", "a", "b"});
  LabelNext("bob", "dog");
  const auto leases = Acquire("ada", 2);
  ASSERT_EQ(leases->leases.size(), 2U);
  // An index stands for any rule of the schema that only one operation of a group breaks.
  store_.reset();
  {
    auto database = SqliteDatabase::Open(CampaignFolder(Folder()).database());
    ASSERT_TRUE(database->Execute("CREATE UNIQUE INDEX one_dog ON event(value) WHERE value='dog'").ok());
  }
  Reopen();
  std::promise<absl::Status> dog, cat;
  const auto submit = [&](std::size_t i, const char* value, std::promise<absl::Status>& done) {
    store_->Start(SubmitLabel,
                  {.annotator = "ada",
                   .request_id = value,
                   .lease = leases->leases[i].lease,
                   .epoch = leases->leases[i].epoch,
                   .item = leases->leases[i].item,
                   .value = value},
                  [&](absl::StatusOr<LabelAnswer> answer) { done.set_value(answer.status()); });
  };
  submit(0, "dog", dog);
  submit(1, "cat", cat);
  EXPECT_THAT(std::string(dog.get_future().get().message()), HasSubstr("UNIQUE constraint failed"));
  EXPECT_TRUE(cat.get_future().get().ok());
  EXPECT_TRUE(store_->health().ok());
  EXPECT_EQ(ItemNow("b").value, "cat");
  EXPECT_THAT(ItemNow("a").votes, IsEmpty());
}

TEST_F(CampaignStoreTest, RequestsThatComeTogetherAreTakenOrRefusedOneByOneAndAnsweredInOrder) {
  Create();
  Batch({"a", "b", "c"});
  const auto leases = Acquire("ada", 3);
  ASSERT_EQ(leases->leases.size(), 3U);
  std::vector<SubmitRequest> labels;
  for (const GrantedLease& lease : leases->leases) {
    labels.push_back({.annotator = "ada",
                      .request_id = absl::StrCat("s/", lease.item),
                      .lease = lease.lease,
                      .epoch = lease.epoch,
                      .item = lease.item,
                      .value = lease.item == "b" ? "" : "cat"});
  }
  std::promise<std::vector<absl::StatusOr<LabelAnswer>>> promise;
  store_->StartAll(SubmitLabel, labels, [&](auto answers) { promise.set_value(std::move(answers)); });
  const auto answers = promise.get_future().get();
  ASSERT_EQ(answers.size(), 3U);
  EXPECT_EQ(answers[1].status().code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(answers[0].ok() && answers[2].ok());
  EXPECT_LT(answers[0]->sequence, answers[2]->sequence);
  EXPECT_EQ(ItemNow("a").value, "cat");
  EXPECT_THAT(ItemNow("b").votes, IsEmpty());
  EXPECT_EQ(ItemNow("c").value, "cat");
}

TEST_F(CampaignStoreTest, NoRequestsAtAllAreAnsweredToo) {
  Create();
  std::promise<std::size_t> count;
  store_->StartAll(SubmitLabel, {}, [&](const auto& answers) { count.set_value(answers.size()); });
  EXPECT_EQ(count.get_future().get(), 0U);
}

TEST_F(CampaignStoreTest, TheStoresOwnConnectionKeepsTheTriggersForEverybodyElse) {
  Create();
  Batch({"a"});
  LabelNext("ada", "cat");
  store_.reset();
  auto database = SqliteDatabase::Open(CampaignFolder(Folder()).database());
  for (const char* sql : {"UPDATE event SET value='dog' WHERE value='cat'", "DELETE FROM event",
                          "INSERT INTO event(sequence, kind, at_us) VALUES (1000, 2, 0)",
                          "INSERT OR REPLACE INTO event(sequence, kind, at_us) VALUES (1, 2, 0)"}) {
    EXPECT_THAT(std::string(database->Execute(sql).message()), HasSubstr("append-only")) << sql;
  }
}

}  // namespace
}  // namespace fulcrum::storage
