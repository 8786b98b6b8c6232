#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage/campaign_reader.h"
#include "storage/rules/round_rules.h"
#include "tests/unit/storage/store_fixture.h"

namespace fulcrum::storage {
namespace {

class PoolRulesTest : public StoreTest {
 protected:
  static AppendRowsRequest Request(const std::string& id, std::int64_t rows) {
    return {.by = "root",
            .request_id = id,
            .content = "fnv1a:1",
            .folder = "pool/appended-00001",
            .rows = rows,
            .answer = "{\"added\":\"3\"}"};
  }
};

TEST_F(PoolRulesTest, AppendedRowsAreInTheLogForGood) {
  Create();
  ASSERT_TRUE(store_->Run(AppendRows, Request("a", 3)).ok());
  Reopen();
  const auto appended = store_->Run(AppendedSoFar, {});
  ASSERT_TRUE(appended.ok());
  ASSERT_EQ(appended->size(), 1u);
  EXPECT_EQ((*appended)[0].folder, "pool/appended-00001");
  EXPECT_EQ((*appended)[0].rows, 3);
  const auto reader = CampaignReader::Open(Folder());
  ASSERT_TRUE(reader.ok() && (*reader)->CatchUp().ok());
  EXPECT_EQ((*reader)->state().appended().size(), 1u);
}

TEST_F(PoolRulesTest, ARepeatGetsTheFirstAnswerAndAddsNothing) {
  Create();
  EXPECT_FALSE(store_->Run(FindAppendAnswer, Request("a", 3))->has_value());
  ASSERT_TRUE(store_->Run(AppendRows, Request("a", 3)).ok());
  AppendRowsRequest again = Request("a", 9);
  again.answer = "another";
  EXPECT_EQ(*store_->Run(AppendRows, again), "{\"added\":\"3\"}");
  EXPECT_EQ(store_->Run(FindAppendAnswer, again)->value(), "{\"added\":\"3\"}");
  EXPECT_EQ(store_->Run(AppendedSoFar, {})->size(), 1u);
  again.content = "fnv1a:2";
  EXPECT_EQ(store_->Run(AppendRows, again).status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(PoolRulesTest, ARequestThatBroughtNothingIsOnlyRemembered) {
  Create();
  ASSERT_TRUE(store_->Run(AppendRows, Request("a", 0)).ok());
  EXPECT_TRUE(store_->Run(AppendedSoFar, {})->empty());
  EXPECT_TRUE(store_->Run(FindAppendAnswer, Request("a", 0))->has_value());
}

TEST_F(PoolRulesTest, AModelIsFoundByItsRoundAndTheLastOneCounts) {
  Create();
  EXPECT_EQ(store_->Run(FindModel, {}).status().code(), absl::StatusCode::kNotFound);
  for (const auto& [round, file] : {std::pair(1, "models/a"), std::pair(2, "models/b"), std::pair(2, "models/c")}) {
    ASSERT_TRUE(
        store_->Run(RecordModel, {.round = round, .trained_on = 1, .file = file, .checksum = "x", .record = "{}"})
            .ok());
  }
  EXPECT_EQ(store_->Run(FindModel, {.round = 1})->file, "models/a");
  EXPECT_EQ(store_->Run(FindModel, {.round = 2})->file, "models/c");
  EXPECT_EQ(store_->Run(FindModel, {})->file, "models/c");
  EXPECT_EQ(store_->Run(FindModel, {})->record, "{}");
  EXPECT_EQ(store_->Run(FindModel, {.round = 3}).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace fulcrum::storage
