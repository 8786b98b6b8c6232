// Rounds: batches are committed once, rounds advance by their policy, stragglers count later.
#include "storage/rules/round_rules.h"

#include <gmock/gmock.h>

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "storage/campaign_reader.h"
#include "tests/unit/storage/store_fixture.h"

namespace fulcrum::storage {
namespace {

using std::chrono::minutes;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RoundRulesTest : public StoreTest {
 protected:
  void SetUp() override {
    CampaignSettings settings = Settings();
    settings.policy = {.soft_time = minutes(20), .soft_share = 0.5, .hard_time = minutes(60), .hard_minimum = 1};
    Create(settings);
  }

  AdvanceAnswer Advance(std::int64_t round, const std::string& forced = "") {
    const auto answer = store_->Run(AdvanceRound, {.round = round, .forced = forced});
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *answer : AdvanceAnswer{};
  }
};

TEST_F(RoundRulesTest, ABatchIsCommittedOnce) {
  const CommitBatchRequest request{.round = 1, .items = {{"a", 0}, {"b", 0}}};
  const auto first = store_->Run(CommitBatch, request);
  ASSERT_TRUE(first.ok()) << first.status();
  Reopen();
  const auto again = store_->Run(CommitBatch, request);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->repeated);
  EXPECT_EQ(again->sequence, first->sequence);
  EXPECT_EQ(store_->status()->round_items, 2);
  EXPECT_EQ(store_->Run(CommitBatch, {.round = 1, .items = {{"c", 0}}}).status().code(),
            absl::StatusCode::kAlreadyExists);
}

TEST_F(RoundRulesTest, ImpossibleBatchesAreRefused) {
  const auto code = [&](const CommitBatchRequest& request) {
    return store_->Run(CommitBatch, request).status().code();
  };
  EXPECT_EQ(code({.round = 1, .items = {}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.round = 2, .items = {{"a", 0}}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.round = 1, .items = {{"a", 0}, {"a", 0}}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.round = 1, .items = {{"a", -1}}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.round = 1, .based_on = 99, .items = {{"a", 0}}}), absl::StatusCode::kInvalidArgument);
  Batch({"a"});
  EXPECT_EQ(code({.round = 2, .items = {{"b", 0}}}), absl::StatusCode::kFailedPrecondition);
  LabelNext("ada", "cat");
  EXPECT_TRUE(Advance(1).closed);
  EXPECT_EQ(code({.round = 2, .items = {{"a", 0}}}), absl::StatusCode::kAborted);
}

TEST_F(RoundRulesTest, AdvancesWhenAllIsAnswered) {
  Batch({"a", "b"});
  LabelNext("ada", "cat");
  EXPECT_FALSE(Advance(1).closed);
  LabelNext("ada", "dog");
  const AdvanceAnswer answer = Advance(1);
  EXPECT_TRUE(answer.closed);
  EXPECT_EQ(answer.reason, "all answered");
  EXPECT_EQ(Advance(1).reason, "all answered");
}

TEST_F(RoundRulesTest, TheStatusSaysWhenARoundIsDue) {
  Batch({"a", "b", "c"});
  LabelNext("ada", "cat");
  EXPECT_FALSE(store_->status()->round_due);
  clock_.Advance(minutes(20));
  EXPECT_FALSE(store_->status()->round_due) << "a third, and half is wanted";
  LabelNext("ada", "cat");
  EXPECT_TRUE(store_->status()->round_due);
  EXPECT_TRUE(Advance(1).closed);
  EXPECT_FALSE(store_->status()->round_due);
  Batch({"d"});
  LabelNext("ada", "cat");
  EXPECT_TRUE(store_->status()->round_due);
}

TEST_F(RoundRulesTest, ARequestToRetrainIsNotForgotten) {
  Batch({"a"});
  const auto requested = store_->Run(RequestRetrain, {});
  ASSERT_TRUE(requested.ok()) << requested.status();
  Reopen();
  const auto reader = *CampaignReader::Open(Folder());
  ASSERT_TRUE(reader->CatchUp().ok());
  EXPECT_EQ(reader->state().retrain_requested(), *requested);
}

TEST_F(RoundRulesTest, AdvancesWithAShareAfterTheSoftTimeAndTheRestReturnsToThePool) {
  Batch({"a", "b", "c"});
  LabelNext("ada", "cat");
  LabelNext("ada", "cat");
  const AdvanceAnswer early = Advance(1);
  EXPECT_FALSE(early.closed);
  EXPECT_EQ(early.look_again, clock_.Now() + minutes(20));
  clock_.Advance(minutes(20));
  EXPECT_THAT(Advance(1).reason, HasSubstr("soft time: 2 of 3"));
  EXPECT_EQ(ItemNow("c").status, ItemStatus::kInPool);
  EXPECT_THAT(Acquire("ada")->leases, IsEmpty());
  Batch({"c"});
  EXPECT_EQ(Lease("ada").item, "c");
}

class LearnedTimesTest : public RoundRulesTest {
 protected:
  void SetUp() override {
    CampaignSettings settings = Settings();
    settings.policy = {.soft_share = 0.5, .learn_soft = true, .learn_hard = true};
    Create(settings);
  }

  /// A round of so many items, each of which takes the annotator so long.
  void Answer(int items, std::chrono::seconds time) {
    std::vector<std::string> names;
    for (int i = 0; i < items; ++i) names.push_back(NewId());
    Batch(names);
    for (int i = 0; i < items; ++i) {
      const GrantedLease lease = Lease("ada");
      clock_.Advance(time);
      ASSERT_TRUE(Submit("ada", lease, "cat").ok());
    }
    ASSERT_TRUE(Advance(store_->status()->round).closed);
  }
};

TEST_F(LearnedTimesTest, RoundsWaitAMultipleOfWhatTheirAnswersShouldTake) {
  using std::chrono::seconds;
  Answer(19, seconds(30));
  Batch({"a", "b", "c", "d"});
  LabelNext("ada", "cat");
  LabelNext("ada", "cat");
  EXPECT_EQ(store_->status()->round_due, false);
  Reopen();
  // 21 answers in 19 times 30 seconds; four of that, three times.
  const Time soft_end = clock_.Now() + std::chrono::milliseconds(std::llround(19 * 30e3 / 21 * 4 * 3));
  const AdvanceAnswer early = Advance(2);
  EXPECT_FALSE(early.closed);
  ASSERT_TRUE(early.look_again.has_value());
  EXPECT_LE(std::chrono::abs(*early.look_again - soft_end), std::chrono::milliseconds(2));
  clock_.Advance(minutes(6));
  EXPECT_THAT(Advance(2).reason, HasSubstr("soft time, learned from earlier answers: 2 of 4"));
  Batch({"e", "f", "g", "h"});
  LabelNext("ada", "cat");
  clock_.Advance(minutes(59));
  EXPECT_FALSE(Advance(3).closed) << "a quarter, and half is wanted";
  clock_.Advance(minutes(2));
  EXPECT_THAT(Advance(3).reason, HasSubstr("hard time, learned from earlier answers: 1 of 4"));
}

TEST_F(LearnedTimesTest, BreaksAndTheTimeInWhichTheStoreIsClosedAreNoAnswerTimes) {
  Answer(12, std::chrono::seconds(10));
  Batch({"a", "b", "c"});
  const auto held = Acquire("ada", 3);
  ASSERT_TRUE(held.ok());
  clock_.Advance(minutes(8));
  ASSERT_TRUE(Submit("ada", held->leases[0], "cat").ok());
  clock_.Advance(std::chrono::seconds(5));
  store_.reset();
  clock_.Advance(std::chrono::hours(5));
  Reopen();
  clock_.Advance(std::chrono::seconds(5));
  ASSERT_TRUE(Submit("ada", held->leases[1], "cat").ok());
  ASSERT_TRUE(store_->Run(ReleaseLease, Request("ada", held->leases[2])).ok());
  const auto reader = *CampaignReader::Open(Folder());
  ASSERT_TRUE(reader->CatchUp().ok());
  const AnnotatorActivity ada = reader->state().activity().Of("ada");
  EXPECT_EQ(ada.timed, 14);
  // Ten times the usual time for the answer after the break; of the last one what came after the restart.
  EXPECT_EQ(ada.micros, (12 * 10 + 10 * 10 + 5) * 1'000'000);
  EXPECT_EQ(reader->state().activity().at_work(), 0u);
}

TEST_F(LearnedTimesTest, AFewAnswersAreNoReasonToEndARound) {
  Answer(10, std::chrono::seconds(1));
  Batch({"a", "b"});
  LabelNext("ada", "cat");
  clock_.Advance(std::chrono::hours(100));
  EXPECT_FALSE(Advance(2).closed);
}

TEST_F(RoundRulesTest, ADisputedOrBadItemCountsAsSettled) {
  Batch({"a"});
  ASSERT_TRUE(Skip("ada", Lease("ada"), SkipReason::kBadItem).ok());
  EXPECT_TRUE(Advance(1).closed);
}

TEST_F(RoundRulesTest, AStragglersLeaseLivesOnAndTheLabelCounts) {
  Batch({"a", "b"});
  const GrantedLease straggler = Lease("ada");
  EXPECT_TRUE(Advance(1, "stopped").closed);
  EXPECT_TRUE(store_->Run(RenewLease, Request("ada", straggler)).ok());
  const auto answer = Submit("ada", straggler, "cat");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_FALSE(answer->late);
  EXPECT_EQ(ItemNow("a").value, "cat");
  EXPECT_THAT(ItemNow("a").slots, IsEmpty());
  Batch({"b"});
}

TEST_F(RoundRulesTest, AStragglerDoesNotGetTheSameItemAgain) {
  Batch({"a"});
  const GrantedLease straggler = Lease("ada");
  EXPECT_TRUE(Advance(1, "stopped").closed);
  Batch({"a"});
  EXPECT_THAT(Acquire("ada")->leases, IsEmpty());
  const GrantedLease other = Lease("ben");
  EXPECT_NE(other.slot, straggler.slot);
  ASSERT_TRUE(Submit("ada", straggler, "cat").ok());
  EXPECT_EQ(ItemNow("a").status, ItemStatus::kLabeled);
  EXPECT_TRUE(Advance(2).closed);
}

TEST_F(RoundRulesTest, TimeWhileTheStoreWasClosedDoesNotCount) {
  Batch({"a", "b"});
  LabelNext("ada", "cat");
  store_.reset();
  clock_.Advance(std::chrono::hours(10));
  Reopen();
  EXPECT_FALSE(Advance(1).closed);
  clock_.Advance(minutes(20));
  EXPECT_TRUE(Advance(1).closed);
}

TEST_F(RoundRulesTest, AModelCannotKnowTheFuture) {
  const std::int64_t last = store_->status()->last_sequence;
  EXPECT_EQ(store_->Run(RecordModel, {.trained_on = last + 1, .file = "m"}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(store_->Run(RecordModel, {.trained_on = last, .file = "m"}).ok());
}

TEST_F(RoundRulesTest, SettingsAndLifeSurviveARestart) {
  CampaignSettings settings = Settings();
  settings.specification = "name: birds\nclasses: [a, b]\n";
  settings.cost_budget = 12.5;
  ASSERT_TRUE(store_->Run(ChangeSettings, {.settings = settings}).ok());
  EXPECT_EQ(store_->Run(ChangeLife, {.life = Life::kPaused}).status().code(), absl::StatusCode::kFailedPrecondition)
      << "it was not started";
  ASSERT_TRUE(store_->Run(ChangeLife, {.life = Life::kRunning, .by = "root"}).ok());
  EXPECT_EQ(*store_->Run(ChangeLife, {.life = Life::kRunning}), 0) << "it is running";
  EXPECT_EQ(store_->status()->life_by, "root");
  ASSERT_TRUE(store_->Run(ChangeLife, {.life = Life::kPaused, .reason = "lunch"}).ok());
  Reopen();
  EXPECT_EQ(store_->status()->life, Life::kPaused);
  EXPECT_EQ(store_->status()->life_reason, "lunch");
  settings.overlap = 0;
  EXPECT_EQ(store_->Run(ChangeSettings, {.settings = settings}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(RoundRulesTest, AnUpdateTakesEffectOnceWhateverCameAfterIt) {
  const auto update = [this](const std::string& id, std::int64_t labels) {
    CampaignSettings settings = Settings();
    settings.label_budget = labels;
    return UpdateRequest{.asked = absl::StrCat("labels ", labels),
                         .settings = settings,
                         .goes_on = true,
                         .by = "root",
                         .request_id = id};
  };
  const auto first = store_->Run(UpdateSettings, update("a", 10));
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(store_->Run(UpdateSettings, update("b", 20)).ok());
  Reopen();
  const std::int64_t last = store_->status()->last_sequence;
  const auto again = store_->Run(UpdateSettings, update("a", 10));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->sequence, first->sequence);
  EXPECT_TRUE(store_->Run(FindUpdate, update("b", 20))->has_value());
  EXPECT_FALSE(store_->Run(FindUpdate, update("c", 20))->has_value());
  EXPECT_EQ(store_->status()->last_sequence, last) << "nothing was written";
  EXPECT_EQ(store_->Run(UpdateSettings, update("a", 30)).status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(RoundRulesTest, AnUpdateLetsACampaignGoOnInTheSameCommit) {
  CampaignSettings settings = Settings();
  settings.specification = "old";
  ASSERT_TRUE(store_->Run(ChangeSettings, {.settings = settings}).ok());
  ASSERT_TRUE(store_->Run(ChangeLife, {.life = Life::kRunning}).ok());
  ASSERT_TRUE(
      store_->Run(ChangeLife, {.life = Life::kDone, .reason = "the budget is spent", .decided_under = "old"}).ok());
  settings.specification = "new";
  const auto update =
      store_->Run(UpdateSettings, {.asked = "more", .settings = settings, .goes_on = true, .by = "root"});
  ASSERT_TRUE(update.ok()) << update.status();
  EXPECT_TRUE(update->continued);
  EXPECT_EQ(store_->status()->life, Life::kRunning);
  EXPECT_EQ(store_->status()->last_sequence, update->sequence + 1);
  // What was decided under the old settings has no effect any more.
  EXPECT_EQ(store_->Run(ChangeLife, {.life = Life::kDone, .decided_under = "old"}).status().code(),
            absl::StatusCode::kAborted);
  EXPECT_EQ(store_->status()->life, Life::kRunning);
  // One that somebody stopped stays stopped.
  ASSERT_TRUE(store_->Run(ChangeLife, {.life = Life::kDone, .by = "root"}).ok());
  EXPECT_FALSE(store_->Run(UpdateSettings, {.asked = "most", .settings = settings, .goes_on = true})->continued);
  EXPECT_EQ(store_->status()->life, Life::kDone);
}

}  // namespace
}  // namespace fulcrum::storage
