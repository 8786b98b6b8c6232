// What can never happen is refused, whatever wrote it into the log.
#include "storage/state/campaign_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fulcrum::storage {
namespace {

using ::testing::HasSubstr;

class CampaignStateTest : public ::testing::Test {
 protected:
  CampaignStateTest() {
    Must({.kind = EventKind::kBatchCommitted, .round = 1});
    Must({.kind = EventKind::kItemBatched, .item = "a", .round = 1, .number = 1});
  }

  /// Events are written as rows here, since no rule would make the impossible ones.
  absl::Status Apply(EventRow row) {
    row.sequence = state_.last_sequence() + 1;
    row.at = FromMicros(now_);
    const Event event = DecodeEvent(row).value();
    const absl::Status status = state_.Apply(event);
    if (status.ok()) happened_.push_back(event);
    return status;
  }
  void Must(const EventRow& event) {
    const absl::Status status = Apply(event);
    ASSERT_TRUE(status.ok()) << status;
  }
  std::int64_t Grant(const std::string& annotator, std::int64_t epoch) {
    Must({.kind = EventKind::kLeaseGranted,
          .annotator = annotator,
          .item = "a",
          .epoch = epoch,
          .round = 1,
          .number = now_ + 1000});
    return state_.last_sequence();
  }
  void ExpectImpossible(const EventRow& event, const char* why) {
    const absl::Status status = Apply(event);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << why;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
    // A state that has refused an event must not be used further.
    state_ = CampaignState();
    for (const Event& earlier : happened_) ASSERT_TRUE(state_.Apply(earlier).ok());
  }

  CampaignState state_;
  std::vector<Event> happened_;
  std::int64_t now_ = 1000;
};

TEST_F(CampaignStateTest, ASlotIsLeasedOnceAndItsEpochGrows) {
  const std::int64_t lease = Grant("ada", 1);
  ExpectImpossible({.kind = EventKind::kLeaseGranted, .annotator = "ben", .item = "a", .epoch = 2}, "not open");
  Must({.kind = EventKind::kLeaseReleased, .annotator = "ada", .lease = lease});
  ExpectImpossible({.kind = EventKind::kLeaseGranted, .annotator = "ben", .item = "a", .epoch = 1}, "epoch 1");
  Grant("ben", 2);
}

TEST_F(CampaignStateTest, ALeaseEndsOnce) {
  const std::int64_t lease = Grant("ada", 1);
  Must({.kind = EventKind::kLeaseExpired, .lease = lease});
  ExpectImpossible({.kind = EventKind::kLeaseExpired, .lease = lease}, "not live");
  ExpectImpossible({.kind = EventKind::kLeaseRenewed, .lease = lease}, "not live");
  ExpectImpossible({.kind = EventKind::kTaskSkipped, .lease = lease, .reason = "unsure"}, "not live");
}

TEST_F(CampaignStateTest, ALabelIsForTheItemOfItsLease) {
  Must({.kind = EventKind::kItemBatched, .item = "b", .round = 1, .number = 2});
  const std::int64_t lease = Grant("ada", 1);
  const auto label = [&](const std::string& item) {
    return EventRow{
        .kind = EventKind::kLabelSubmitted, .annotator = "ada", .item = item, .lease = lease, .value = "cat"};
  };
  ExpectImpossible(label("b"), "its lease is for item 'a'");
  Must(label("a"));
}

TEST_F(CampaignStateTest, ARequestTakesEffectOnce) {
  Must({.kind = EventKind::kLifeChanged, .annotator = "ada", .request_id = "r", .value = "running"});
  Must({.kind = EventKind::kLifeChanged, .value = "paused"});
  ExpectImpossible({.kind = EventKind::kLifeChanged, .annotator = "ada", .request_id = "r"}, "took effect before");
  Must({.kind = EventKind::kLifeChanged, .annotator = "ben", .request_id = "r", .value = "running"});
}

TEST_F(CampaignStateTest, AnAnnotatorAnswersAnItemOnce) {
  const std::int64_t lease = Grant("ada", 1);
  const EventRow label{
      .kind = EventKind::kLabelSubmitted, .annotator = "ada", .item = "a", .lease = lease, .value = "x"};
  Must(label);
  ExpectImpossible(label, "answered item 'a' before");
}

TEST_F(CampaignStateTest, EventsComeInOrderOfNumberAndTime) {
  Event event{.sequence = state_.last_sequence() + 2, .at = FromMicros(now_)};
  EXPECT_EQ(state_.Apply(event).code(), absl::StatusCode::kDataLoss);
  event.sequence = state_.last_sequence() + 1;
  event.at = FromMicros(now_ - 1);
  EXPECT_EQ(state_.Apply(event).code(), absl::StatusCode::kDataLoss);
}

TEST_F(CampaignStateTest, RoundsFollowOneAnother) {
  ExpectImpossible({.kind = EventKind::kBatchCommitted, .round = 2}, "still open");
  ExpectImpossible({.kind = EventKind::kRoundClosed, .round = 2}, "not open");
  Must({.kind = EventKind::kRoundClosed, .round = 1});
  ExpectImpossible({.kind = EventKind::kBatchCommitted, .round = 3}, "next round is 2");
  ExpectImpossible({.kind = EventKind::kModelStored, .number = 100}, "yet to come");
}

TEST_F(CampaignStateTest, ThingsThatAreNotThereCannotChange) {
  ExpectImpossible({.kind = EventKind::kLabelWithdrawn, .annotator = "ada", .item = "a"}, "has no label");
  ExpectImpossible({.kind = EventKind::kItemSetAside, .item = "nowhere"}, "no item 'nowhere'");
  ExpectImpossible({.kind = EventKind::kItemReturned, .item = "a"}, "neither set aside nor disputed");
  ExpectImpossible({.kind = EventKind::kLabelImported, .item = "a"}, "no value");
}

TEST_F(CampaignStateTest, TheTimeTheStoreWasClosedIsAddedToLeasesAndRound) {
  Grant("ada", 1);
  const Time started = state_.rounds().open()->started_at;
  Must({.kind = EventKind::kStoreOpened, .number = 500});
  EXPECT_EQ(state_.leases().NextExpiry(), FromMicros(now_ + 1500));
  EXPECT_EQ(state_.rounds().open()->started_at, started + std::chrono::microseconds(500));
  ExpectImpossible({.kind = EventKind::kStoreOpened, .number = -1}, "negative");
}

TEST_F(CampaignStateTest, LabelsComeInTheOrderTheyWereDecided) {
  Must({.kind = EventKind::kLabelImported, .item = "z", .value = "1"});
  Must({.kind = EventKind::kLabelImported, .item = "b", .value = "2"});
  Must({.kind = EventKind::kLabelImported, .item = "z", .value = "3"});
  const auto labels = state_.items().DecidedLabels();
  ASSERT_EQ(labels.size(), 2u);
  EXPECT_EQ(labels[0].item, "b");
  EXPECT_EQ(labels[1].value, "3");
}

}  // namespace
}  // namespace fulcrum::storage
