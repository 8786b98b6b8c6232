// The derived tables are written a lot at a time, between commits, and are sound at any moment.
#include "storage/commit/campaign_writer.h"

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "storage/maintenance/maintenance.h"
#include "storage/rules/round_rules.h"
#include "tests/support/manual_clock.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A rule, carried out on its own.
template <typename Rule, typename Request>
class Alone final : public Operation {
 public:
  Alone(Rule rule, Request request, absl::Status& status)
      : rule_(rule), request_(std::move(request)), status_(status) {}
  absl::Status Run(Ledger& ledger) override { return rule_(ledger, request_).status(); }
  void Answer(const absl::Status& status) override { status_ = status; }

 private:
  const Rule rule_;
  const Request request_;
  absl::Status& status_;
};

class CampaignWriterTest : public ::testing::Test {
 protected:
  static constexpr int kItems = 2000;

  void Open() {
    writer_.reset();
    auto writer = CampaignWriter::Open(CampaignFolder(Folder()), {.clock = &clock_});
    ASSERT_TRUE(writer.ok()) << writer.status();
    writer_ = *std::move(writer);
  }

  void SetUp() override {
    ASSERT_TRUE(CampaignFolder(Folder()).Create().ok());
    Open();
    ASSERT_TRUE(writer_->RecordCreation({}).ok());
    CommitBatchRequest batch{.round = 1};
    for (int i = 0; i < kItems; ++i) batch.items.push_back({absl::StrCat("item-", i), 0});
    Commit(CommitBatch, batch);
    ASSERT_TRUE(writer_->WriteCheckpoint().ok());
  }

  template <typename Rule, typename Request>
  void Commit(Rule rule, Request request) {
    absl::Status status = absl::UnknownError("not answered");
    OperationGroup group;
    group.push_back(std::make_unique<Alone<Rule, Request>>(rule, std::move(request), status));
    writer_->Commit(group);
    ASSERT_TRUE(status.ok()) << status;
  }

  /// Closing a round touches all of its items.
  void CloseRound() { Commit(AdvanceRound, AdvanceRequest{.round = 1, .forced = "enough"}); }

  std::string Folder() const { return directory_.File("campaign"); }
  int OfferedInTable() const {
    auto database = SqliteDatabase::Open(CampaignFolder(Folder()).database(), {.read_only = true});
    return std::stoi(*database->QueryText("SELECT count(*) FROM item WHERE status='offered'"));
  }
  FsckReport Check() const {
    const auto report = CheckCampaign(Folder());
    EXPECT_TRUE(report.ok()) << report.status();
    return report.value_or(FsckReport{});
  }

  testing::TemporaryDirectory directory_;
  testing::ManualClock clock_;
  std::unique_ptr<CampaignWriter> writer_;
};

TEST_F(CampaignWriterTest, TablesAreSoundBetweenTheLots) {
  ASSERT_EQ(OfferedInTable(), kItems);
  const std::int64_t before = Check().tables_through;
  CloseRound();
  int lots = 1;
  for (; *writer_->WriteSomeOfCheckpoint(); ++lots) {
    EXPECT_LT(OfferedInTable(), kItems);
    EXPECT_GT(OfferedInTable(), 0);
    const FsckReport report = Check();
    EXPECT_THAT(report.problems, IsEmpty());
    EXPECT_EQ(report.tables_through, before);
  }
  EXPECT_GT(lots, 3);
  EXPECT_EQ(OfferedInTable(), 0);
  EXPECT_THAT(Check().problems, IsEmpty());
  EXPECT_EQ(Check().tables_through, Check().events);
}

TEST_F(CampaignWriterTest, WhatWasCutShortIsWrittenByWhoOpensTheCampaignNext) {
  CloseRound();
  ASSERT_TRUE(*writer_->WriteSomeOfCheckpoint());
  Open();  // as after a kill: nobody has finished it
  ASSERT_TRUE(writer_->WriteCheckpoint().ok());
  EXPECT_EQ(OfferedInTable(), 0);
  EXPECT_THAT(Check().problems, IsEmpty());
  EXPECT_EQ(Check().tables_through, Check().events);
}

TEST_F(CampaignWriterTest, ARowOfAnUntouchedItemIsComparedAllTheSame) {
  Commit(SetItemAside, ItemRequest{.item = "item-7", .by = "ada", .reason = "torn"});
  {
    auto database = SqliteDatabase::Open(CampaignFolder(Folder()).database());
    ASSERT_TRUE(database->Execute("UPDATE item SET value='forged' WHERE item IN ('item-7', 'item-8')").ok());
  }
  EXPECT_THAT(Check().problems, ElementsAre(HasSubstr("row of item 'item-7'"), HasSubstr("row of item 'item-8'")));
}

}  // namespace
}  // namespace fulcrum::storage
