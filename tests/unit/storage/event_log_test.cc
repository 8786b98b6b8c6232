#include "storage/log/event_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage/log/schema.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::storage {
namespace {

using ::testing::ElementsAre;

class EventLogTest : public ::testing::Test {
 protected:
  EventLogTest() : database_(*SqliteDatabase::Open(directory_.File("campaign.db"))) {
    EXPECT_TRUE(Migrate(database_).ok());
    auto log = EventLog::Open(database_);
    EXPECT_TRUE(log.ok()) << log.status();
    log_ = std::make_unique<EventLog>(*std::move(log));
  }

  const testing::TemporaryDirectory directory_;
  SqliteDatabase database_;
  std::unique_ptr<EventLog> log_;
};

TEST_F(EventLogTest, EveryFieldComesBack) {
  const Event full{.sequence = 1,
                   .kind = EventKind::kLabelSubmitted,
                   .at = FromMicros(1'234'567),
                   .annotator = "ada",
                   .request_id = "r-1",
                   .fingerprint = -5,
                   .item = "ümläut, \"quoted\"",
                   .slot = 2,
                   .lease = 3,
                   .epoch = 4,
                   .round = 5,
                   .value = "cat",
                   .reason = "late",
                   .cost = 0.1,
                   .number = INT64_MIN,
                   .detail = "two\nlines"};
  const Event sparse{.sequence = 2, .kind = EventKind::kRoundClosed, .at = FromMicros(0)};
  ASSERT_TRUE(log_->Append(full).ok());
  ASSERT_TRUE(log_->Append(sparse).ok());
  EXPECT_EQ(*log_->Find(1), full);
  EXPECT_EQ(*log_->Find(2), sparse);
  EXPECT_EQ(log_->Find(3).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(*log_->LastSequence(), 2);
}

TEST_F(EventLogTest, VisitsARangeInOrderAndStopsWhenTold) {
  for (std::int64_t i = 1; i <= 10; ++i) ASSERT_TRUE(log_->Append({.sequence = i}).ok());
  std::vector<std::int64_t> seen;
  ASSERT_TRUE(log_->Visit(3, 5,
                          [&](const Event& event) {
                            seen.push_back(event.sequence);
                            return absl::OkStatus();
                          })
                  .ok());
  EXPECT_THAT(seen, ElementsAre(3, 4, 5));
  const absl::Status enough = absl::CancelledError("enough");
  EXPECT_EQ(log_->Visit(1, kEndOfLog, [&](const Event&) { return enough; }), enough);
  EXPECT_EQ(*log_->LastSequence(), 10);
}

TEST_F(EventLogTest, AKindThatIsUnknownIsDamage) {
  ASSERT_TRUE(database_.Execute("INSERT INTO event(sequence, kind, at_us) VALUES (1, 777, 0)").ok());
  EXPECT_EQ(log_->Find(1).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace fulcrum::storage
