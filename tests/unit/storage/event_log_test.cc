#include "storage/log/event_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

  EventRow RowAt(std::int64_t sequence) {
    EventRow found;
    EXPECT_TRUE(log_->VisitRows(sequence, sequence,
                                [&](EventRow row) {
                                  found = std::move(row);
                                  return absl::OkStatus();
                                })
                    .ok());
    return found;
  }

  const testing::TemporaryDirectory directory_;
  SqliteDatabase database_;
  std::unique_ptr<EventLog> log_;
};

TEST_F(EventLogTest, EveryFieldComesBack) {
  const EventRow full{.sequence = 1,
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
  const EventRow sparse{.sequence = 2, .kind = EventKind::kRoundClosed, .at = FromMicros(0)};
  ASSERT_TRUE(log_->Append(full).ok());
  ASSERT_TRUE(log_->Append(sparse).ok());
  EXPECT_EQ(RowAt(1), full);
  EXPECT_EQ(RowAt(2), sparse);
  EXPECT_EQ(*log_->Find(1), *DecodeEvent(full));
  EXPECT_EQ(log_->Find(3).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(*log_->LastSequence(), 2);
}

TEST(EventTest, EveryKindComesBackAndKeepsItsNumberAndColumns) {
  const Time at = FromMicros(77);
  const std::vector<std::pair<EventBody, EventRow>> kinds = {
      {StoreOpened{std::chrono::microseconds(-5)}, {.kind = EventKind{1}, .number = -5}},
      {SettingsChanged{"s"}, {.kind = EventKind{2}, .detail = "s"}},
      {LifeChanged{"running", "r"}, {.kind = EventKind{3}, .value = "running", .reason = "r"}},
      {BatchCommitted{1, 2, "f"}, {.kind = EventKind{10}, .round = 1, .number = 2, .detail = "f"}},
      {BatchCommitted{1, 2, "f", 3}, {.kind = EventKind{10}, .slot = 3, .round = 1, .number = 2, .detail = "f"}},
      {ItemBatched{"i", 1, 2, 0.5}, {.kind = EventKind{11}, .item = "i", .round = 1, .cost = 0.5, .number = 2}},
      {RoundClosed{1, "r"}, {.kind = EventKind{12}, .round = 1, .reason = "r"}},
      {ModelStored{1, 2, "f", "c", "r"},
       {.kind = EventKind{13}, .round = 1, .value = "f", .reason = "r", .number = 2, .detail = "c"}},
      {RowsAppended{3, "f", "a"}, {.kind = EventKind{14}, .value = "f", .number = 3, .detail = "a"}},
      {RetrainRequested{}, {.kind = EventKind{15}}},
      {LeaseGranted{"i", 1, 2, 3, at},
       {.kind = EventKind{20}, .item = "i", .slot = 1, .epoch = 2, .round = 3, .number = 77}},
      {LeaseRenewed{1, 2, at}, {.kind = EventKind{21}, .lease = 1, .epoch = 2, .number = 77}},
      {LeaseReleased{1, 2}, {.kind = EventKind{22}, .lease = 1, .epoch = 2}},
      {LeaseExpired{1, 2}, {.kind = EventKind{23}, .lease = 1, .epoch = 2}},
      {LabelSubmitted{"i", 1, 2, 3, 4, "v", 0.5, true},
       {.kind = EventKind{30},
        .item = "i",
        .slot = 1,
        .lease = 2,
        .epoch = 3,
        .round = 4,
        .value = "v",
        .reason = "late",
        .cost = 0.5}},
      {LabelChanged{"i", "v"}, {.kind = EventKind{31}, .item = "i", .value = "v"}},
      {LabelWithdrawn{"i"}, {.kind = EventKind{32}, .item = "i"}},
      {LabelImported{"i", "v", 0.5}, {.kind = EventKind{33}, .item = "i", .value = "v", .cost = 0.5}},
      {TaskSkipped{"i", 1, 2, 3, 4, "unsure"},
       {.kind = EventKind{40}, .item = "i", .slot = 1, .lease = 2, .epoch = 3, .round = 4, .reason = "unsure"}},
      {ItemSetAside{"i", "r"}, {.kind = EventKind{41}, .item = "i", .reason = "r"}},
      {ItemReturned{"i", "r"}, {.kind = EventKind{42}, .item = "i", .reason = "r"}},
      {ItemDisputed{"i", "r"}, {.kind = EventKind{43}, .item = "i", .reason = "r"}},
      {ItemResolved{"i", "v", "r"}, {.kind = EventKind{44}, .item = "i", .value = "v", .reason = "r"}},
      {ModelTaskOpened{1, 2}, {.kind = EventKind{50}, .round = 1, .number = 2}},
      {ModelLeaseGranted{1, 2, at}, {.kind = EventKind{51}, .epoch = 2, .round = 1, .number = 77}},
      {ModelLeaseRenewed{1, 2, at}, {.kind = EventKind{52}, .lease = 1, .epoch = 2, .number = 77}},
      {ModelLeaseEnded{1, 2, "r"}, {.kind = EventKind{53}, .lease = 1, .epoch = 2, .reason = "r"}},
      {PredictionsStored{1, 2, 3, "f", "c", true},
       {.kind = EventKind{54}, .lease = 2, .epoch = 3, .round = 1, .value = "f", .reason = "late", .detail = "c"}},
      {ModelTaskClosed{1, "r"}, {.kind = EventKind{55}, .round = 1, .reason = "r"}},
      {VotesAccepted{"i", "r"}, {.kind = EventKind{45}, .item = "i", .reason = "r"}},
      {AnnotatorsEstimated{5, "c"}, {.kind = EventKind{60}, .number = 5, .detail = "c"}},
      {ClassifierHeard{5, "v"}, {.kind = EventKind{63}, .round = 5, .detail = "v"}},
      {AnnotatorPaused{"w", "r"}, {.kind = EventKind{61}, .value = "w", .reason = "r"}},
      {AnnotatorResumed{"w", "r"}, {.kind = EventKind{62}, .value = "w", .reason = "r"}},
      {RowsOffered{1, 2, 3, 4, 5, true, "r"},
       {.kind = EventKind{16},
        .slot = 2,
        .lease = 3,
        .epoch = 4,
        .round = 5,
        .reason = "complete",
        .number = 1,
        .detail = "r"}},
      {ItemTaken{"i", 0.5}, {.kind = EventKind{17}, .item = "i", .cost = 0.5}},
      {OfferedRowsStored{1, "f", 2}, {.kind = EventKind{18}, .lease = 2, .value = "f", .number = 1}},
  };
  EXPECT_EQ(kinds.size(), std::variant_size_v<EventBody> + 1);
  for (const auto& [body, row] : kinds) {
    EXPECT_EQ(EncodeEvent({.body = body}), row) << EventKindName(row.kind);
    EXPECT_EQ(DecodeEvent(row)->body, body) << EventKindName(row.kind);
    EXPECT_STRNE(EventKindName(row.kind), "unknown");
  }
  const EventBody with_features = PredictionsStored{1, 2, 3, "f", "c", false, "g", "d"};
  const EventRow row{.kind = EventKind{54}, .lease = 2, .epoch = 3, .round = 1, .value = "f", .detail = "c g d"};
  EXPECT_EQ(EncodeEvent({.body = with_features}), row);
  EXPECT_EQ(DecodeEvent(row)->body, with_features);
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
