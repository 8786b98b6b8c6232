// Who gets which task, who waits for whom, and what annotators may cost.
#include <gmock/gmock.h>

#include <map>
#include <set>
#include <tuple>

#include "storage/rules/stuck_items.h"
#include "tests/unit/storage/rules/crowd_store_test.h"

namespace fulcrum::storage {
namespace {

using ::testing::HasSubstr;

class AssignmentTest : public CrowdStoreTest {};

TEST_F(AssignmentTest, WhoLetsTasksExpireLeavesThoseThatExpiredToOthers) {
  Create(Settings());
  Batch(Items("x", 40));
  for (int i = 0; i < 20; ++i) LabelNext("ada", "cat");
  // The next tasks expire, one after the other, in the hands of one who hardly answers.
  std::set<std::string> expired;
  for (int i = 0; i < 5; ++i) {
    const auto answer = Acquire("silent", 2);
    ASSERT_TRUE(answer.ok());
    for (const GrantedLease& lease : answer->leases) expired.insert(lease.item);
    clock_.Advance(std::chrono::minutes(11));
    ASSERT_TRUE(store_->ExpireLeases().ok());
  }
  EXPECT_EQ(Replayed().activity().Of("silent").expired, 10);
  EXPECT_EQ(expired.size(), 10u) << "each is asked about tasks that nobody left unanswered";
  EXPECT_TRUE(expired.contains(Lease("ada").item)) << "who answers takes them in their order";
}

TEST_F(AssignmentTest, WhatAnAnnotatorHoldsIsCounted) {
  CampaignSettings settings = Settings();
  settings.annotators["ada"] = {.cost = 1, .budget = 100};
  Create(settings);
  Batch(Items("x", 10), 2);
  const auto ada = Acquire("ada", 3);
  ASSERT_TRUE(ada.ok());
  ASSERT_TRUE(Acquire("bob", 2).ok());
  const auto check = [&](const CampaignState& state, std::int64_t of_ada, std::size_t holders) {
    std::map<std::string, LeaseTable::Held> naive;
    state.leases().Visit([&](const storage::Lease& lease) {
      ++naive[lease.annotator].leases;
      naive[lease.annotator].cost += lease.cost;
    });
    EXPECT_EQ(state.leases().holders(), holders);
    EXPECT_EQ(naive.size(), holders);
    for (const auto& [name, held] : naive) {
      EXPECT_EQ(state.leases().HeldBy(name).leases, held.leases) << name;
      EXPECT_DOUBLE_EQ(state.leases().HeldBy(name).cost, held.cost) << name;
    }
    EXPECT_EQ(state.leases().HeldBy("ada").leases, of_ada);
    EXPECT_DOUBLE_EQ(state.LeftFor("ada"), 100 - state.activity().Of("ada").cost - 3.0 * static_cast<double>(of_ada));
  };
  check(Replayed(), 3, 2);
  ASSERT_TRUE(Submit("ada", ada->leases[0], "cat").ok());
  check(Replayed(), 2, 2);
  for (int i = 1; i < 3; ++i) {
    ASSERT_TRUE(store_->Run(ReleaseLease, Request("ada", ada->leases[static_cast<std::size_t>(i)])).ok());
  }
  check(Replayed(), 0, 1);
}

TEST_F(AssignmentTest, WhoCanTellTwoClassesApartGetsWhatIsInDoubtBetweenThem) {
  CampaignSettings settings = Adaptive();
  settings.classes = {"cat", "dog", "cow"};
  settings.gold_rate = 0.999;
  settings.confidence = 0.99;
  Create(settings);
  ImportRequest gold{.source = kGoldSource, .request_id = NewId()};
  const std::vector<std::string> names = Items("g", 90);
  for (std::size_t i = 0; i < names.size(); ++i) gold.labels.push_back({names[i], settings.classes[i % 3]});
  ASSERT_TRUE(store_->Run(ImportLabels, gold).ok());
  Batch(Items("x", 200));
  std::map<std::string, std::string> truth;
  for (const ImportedLabel& label : gold.labels) truth[label.item] = label.value;
  // One mistakes cows for dogs and dogs for cows half of the time, the other cats and dogs.
  for (const char* const name : {"felis", "bovis"}) {
    int asked = 0;
    for (int i = 0; i < 150 && asked < 85; ++i) {
      const GrantedLease lease = Lease(name);
      if (!truth.contains(lease.item)) {
        ASSERT_TRUE(store_->Run(ReleaseLease, Request(name, lease)).ok());
        continue;
      }
      const std::string right = truth[lease.item], sure = name[0] == 'f' ? "cat" : "cow",
                        other = name[0] == 'f' ? "cow" : "cat";
      const std::string mistaken = right == sure ? right : right == "dog" ? other : "dog";
      ASSERT_TRUE(Submit(name, lease, asked++ % 2 == 0 ? right : mistaken).ok());
    }
    ASSERT_GT(asked, 60);
  }
  ASSERT_TRUE(store_->Run(AdvanceRound, {.round = 1, .forced = "test"}).ok());
  settings.gold_rate = 0;
  ASSERT_TRUE(store_->Run(ChangeSettings, {.settings = settings}).ok());
  ASSERT_TRUE(store_->Run(EstimateAnnotators, {}).ok());
  // q is between dog and cow, p between cat and dog.
  Batch({"q", "p"});
  for (const auto& [name, about_q, about_p] : {std::tuple("u1", "dog", "cat"), {"u2", "cow", "dog"}}) {
    const auto tasks = Acquire(name, 2);
    ASSERT_TRUE(tasks.ok());
    ASSERT_EQ(tasks->leases.size(), 2u);
    for (const GrantedLease& lease : tasks->leases) {
      ASSERT_TRUE(Submit(name, lease, lease.item == "q" ? about_q : about_p).ok());
    }
  }
  const GrantedLease of_felis = Lease("felis"), of_bovis = Lease("bovis");
  EXPECT_EQ(of_felis.item, "p");
  EXPECT_EQ(of_bovis.item, "q");
}

TEST_F(AssignmentTest, WhoSkipsOftenGetsWhatOthersDoNotSkip) {
  CampaignSettings settings = Settings();
  settings.most_attempts = 100;
  Create(settings);
  Batch(Items("x", 12));
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(Skip("reluctant", Lease("reluctant"), SkipReason::kUnsure).ok());
  for (int i = 0; i < 8; ++i) LabelNext("willing", "cat");
  ASSERT_TRUE(store_->Run(AdvanceRound, {.round = 1, .forced = "test"}).ok());
  Batch({"hard", "easy"});
  for (const char* const name : {"bob", "cy"}) ASSERT_TRUE(Skip(name, Lease(name), SkipReason::kUnsure).ok());
  EXPECT_EQ(Lease("reluctant").item, "easy");
  EXPECT_EQ(Lease("willing").item, "hard");
}

TEST_F(AssignmentTest, WhoSkipsIsOfferedNothingOnceAllThatTheBudgetAllowsIsLeased) {
  CampaignSettings settings = Settings();
  settings.most_attempts = 100;
  settings.label_budget = 10;
  Create(settings);
  Batch(Items("x", 12));
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(Skip("reluctant", Lease("reluctant"), SkipReason::kUnsure).ok());
  for (int i = 0; i < 8; ++i) LabelNext("willing", "cat");
  EXPECT_EQ(Acquire("willing", 5)->leases.size(), 2u);
  const auto none = Acquire("reluctant", 5);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_TRUE(none->leases.empty());
}

TEST_F(AssignmentTest, WhatEverybodySkippedIsSetAsideWithoutWaiting) {
  CampaignSettings settings = Settings();
  settings.most_attempts = 100;
  Create(settings);
  Batch({"hard"});
  for (const char* const name : {"ada", "bob"}) ASSERT_TRUE(Skip(name, Lease(name), SkipReason::kUnsure).ok());
  EXPECT_EQ(store_->Run(SettleStuckItems, {})->set_aside, 0) << "somebody else may come";
  ASSERT_TRUE(Skip("cy", Lease("cy"), SkipReason::kUnsure).ok());
  EXPECT_EQ(store_->Run(SettleStuckItems, {})->set_aside, 1);
  EXPECT_EQ(ItemNow("hard").reason, "every annotator skipped it");
}

TEST_F(AssignmentTest, AnAnswerCostsTheTimeThatItIsExpectedToTake) {
  CampaignSettings settings = Settings();
  settings.annotators["slow"] = {.budget = 20, .hourly_cost = 60};
  settings.annotators["fast"] = {.cost = 1, .hourly_cost = 60};
  Create(settings);
  Batch(Items("x", 200), 2);
  const Item item = *Replayed().items().Find("x0");
  EXPECT_DOUBLE_EQ(Replayed().CostOf(item, "slow"), 2.5) << "30 seconds before the first answer";
  EXPECT_DOUBLE_EQ(Replayed().CostOf(item, "fast"), 3.5);
  EXPECT_DOUBLE_EQ(Replayed().CostOf(item, "newcomer"), 2);
  for (int i = 0; i < 40; ++i) {
    const GrantedLease lease = Lease("fast");
    clock_.Advance(std::chrono::seconds(3));
    ASSERT_TRUE(Submit("fast", lease, "cat").ok());
  }
  double spent = 0;
  int answered = 0;
  for (absl::StatusOr<AcquireAnswer> next = Acquire("slow"); next.ok() && !next->leases.empty();
       next = Acquire("slow")) {
    const CampaignState state = Replayed();
    const double expected = state.CostOf(*state.items().Find(next->leases[0].item), "slow");
    clock_.Advance(std::chrono::seconds(60));
    ASSERT_TRUE(Submit("slow", next->leases[0], "cat").ok());
    spent = Replayed().activity().Of("slow").cost;
    EXPECT_LE(spent, 20);
    EXPECT_GE(expected, 2 + 1.0 / 6) << "10 seconds at least";
    ++answered;
  }
  EXPECT_GT(answered, 5);
  EXPECT_GT(Replayed().SecondsOf("slow"), 30);
  EXPECT_LT(Replayed().SecondsOf("fast"), 7);
  EXPECT_GT(spent, 16) << "what is left pays for no further answer";
}

TEST_F(AssignmentTest, NoAnnotatorSpendsMoreThanItsBudgetTasksThatItHasIncluded) {
  CampaignSettings settings = Settings();
  settings.annotators["ada"] = {.cost = 2, .budget = 10};
  settings.annotators["bob"] = {.cost = 0.5};
  Create(settings);
  Batch(Items("x", 30), 1);
  // Three each, and the fourth would exceed it.
  const auto first = Acquire("ada", 2), rest = Acquire("ada", 9), none = Acquire("ada", 9);
  ASSERT_TRUE(first.ok() && rest.ok() && none.ok());
  EXPECT_EQ(first->leases.size(), 2u);
  EXPECT_EQ(rest->leases.size(), 1u);
  EXPECT_TRUE(none->leases.empty());
  ASSERT_TRUE(store_->Run(ReleaseLease, Request("ada", rest->leases[0])).ok());
  for (const GrantedLease& lease : first->leases) ASSERT_TRUE(Submit("ada", lease, "cat").ok());
  Reopen();
  EXPECT_EQ(Acquire("ada", 9)->leases.size(), 1u);
  EXPECT_EQ(Replayed().activity().Of("ada"), (AnnotatorActivity{.answers = 2, .cost = 6, .timed = 2}));
  LabelNext("bob", "dog");
  EXPECT_EQ(Replayed().activity().Of("bob").cost, 1.5);
  EXPECT_EQ(store_->status()->totals.cost, 7.5);
  settings.annotators["ada"].budget = 6;
  ASSERT_TRUE(store_->Run(ChangeSettings, {.settings = settings}).ok());
  const auto spent = Acquire("ada");
  EXPECT_EQ(spent.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(spent.status().message()), HasSubstr("the budget of annotator 'ada' is spent: 6 of 6"));
  auto reader = CampaignReader::Open(Folder());
  ASSERT_TRUE(reader.ok());
  ASSERT_TRUE((*reader)->CatchUp().ok());
  EXPECT_EQ((*reader)->state().Figures(), Replayed().Figures());
}

TEST_F(AssignmentTest, GoldTasksArePaidForAndKeepTheBudget) {
  CampaignSettings settings = Adaptive();
  settings.gold_rate = 0.5;
  settings.cost_budget = 40;
  Create(settings);
  ImportRequest gold{.source = kGoldSource, .request_id = NewId()};
  for (const std::string& item : Items("g", 60)) gold.labels.push_back({item, "cat", 2});
  for (const std::string& item : Items("dear", 60)) gold.labels.push_back({item, "cat", 3});
  ASSERT_TRUE(store_->Run(ImportLabels, gold).ok());
  Batch(Items("x", 60), 2);
  int known = 0, answered = 0;
  for (auto answer = Acquire("ada", 3); answer.ok() && !answer->leases.empty(); answer = Acquire("ada", 3)) {
    for (const GrantedLease& lease : answer->leases) {
      EXPECT_NE(lease.item[0], 'd') << "it costs more than what it replaces";
      known += lease.item[0] == 'g' ? 1 : 0;
      ++answered;
      ASSERT_TRUE(Submit("ada", lease, "cat").ok());
    }
  }
  EXPECT_GT(known, 0);
  EXPECT_EQ(answered, 20);
  EXPECT_EQ(store_->status()->totals.cost, 40);
  EXPECT_EQ(Replayed().totals().cost, 40);
}

TEST_F(AssignmentTest, TheCampaignDoesNotWaitForAPausedAnnotator) {
  Create(Adaptive());
  Batch({"z"});
  for (const char* const name : {"ada", "bob", "dan"}) LabelNext(name, "cat");
  ASSERT_TRUE(store_->Run(AdvanceRound, {.round = 1, .forced = "test"}).ok());
  Batch({"a"});
  for (const char* const name : {"ada", "bob"}) LabelNext(name, "cat");
  EXPECT_EQ(ItemNow("a").status, ItemStatus::kOffered);
  EXPECT_EQ(store_->Run(DescribeWaiting, {})->stuck_items, 0) << "the third can answer it";
  ASSERT_TRUE(store_->Run(SettleStuckItems, {}).ok());
  EXPECT_EQ(ItemNow("a").status, ItemStatus::kOffered);
  ASSERT_TRUE(store_->Run(PauseAnnotator, {.annotator = "dan", .by = "admin"}).ok());
  EXPECT_EQ(store_->Run(DescribeWaiting, {})->stuck_item, "a");
  ASSERT_TRUE(store_->Run(SettleStuckItems, {}).ok());
  EXPECT_EQ(ItemNow("a").value, "cat");
}

TEST_F(AssignmentTest, TheFirstAnnotatorDoesNotDecideByBeingAlone) {
  Create(Adaptive());
  Batch({"a", "b"});
  LabelNext("ada", "cat");
  LabelNext("ada", "dog");
  ASSERT_TRUE(store_->Run(SettleStuckItems, {}).ok());
  EXPECT_EQ(ItemNow("a").status, ItemStatus::kOffered);
  LabelNext("bob", "cat");
  ASSERT_TRUE(store_->Run(SettleStuckItems, {}).ok());
  EXPECT_EQ(ItemNow("a").value, "cat") << "both that there are have answered it";
  EXPECT_EQ(ItemNow("b").status, ItemStatus::kOffered);
  clock_.Advance(Adaptive().dispute_time);
  ASSERT_TRUE(store_->Run(SettleStuckItems, {}).ok());
  EXPECT_EQ(ItemNow("b").value, "dog") << "nobody else came in time";
}

TEST_F(AssignmentTest, OnlyWhatAnnotatorsDoDelaysADispute) {
  CampaignSettings settings = Settings();
  settings.overlap = 2;
  settings.dispute_time = std::chrono::hours(10);
  Create(settings);
  Batch({"a"});
  LabelNext("ada", "cat");
  const Time voted = clock_.Now();
  for (int hour = 1; hour < 10; ++hour) {
    clock_.Advance(std::chrono::hours(1));
    ASSERT_TRUE(store_->Run(RequestRetrain, {.by = "admin", .request_id = NewId()}).ok());
    if (hour % 3 == 0) Reopen();
    ASSERT_EQ(store_->Run(SettleStuckItems, {})->disputed, 0) << hour;
  }
  EXPECT_EQ(*store_->Run(DescribeWaiting, {})->dispute_at, voted + settings.dispute_time);
  clock_.Advance(std::chrono::hours(1));
  EXPECT_EQ(store_->Run(SettleStuckItems, {})->disputed, 1);
}

TEST_F(AssignmentTest, AStopCountsForHalfOfTheDisputeTimeAtMost) {
  CampaignSettings settings = Settings();
  settings.overlap = 2;
  settings.dispute_time = std::chrono::hours(10);
  Create(settings);
  for (const char* const item : {"a", "b", "c"}) {
    Batch({item});
    LabelNext("ada", "cat");
    store_.reset();
    // A long stop, stops without any event in between, or a clock that was ten years ahead.
    clock_.Advance(std::chrono::hours(*item == 'a' ? 100 : *item == 'b' ? 5 : -24 * 3650));
    Reopen();
    EXPECT_EQ(store_->Run(SettleStuckItems, {})->disputed, 0) << item;
    clock_.Advance(std::chrono::hours(*item == 'c' ? 10 : 5));
    Reopen();
    EXPECT_EQ(store_->Run(SettleStuckItems, {})->disputed, *item == 'c' ? 0 : 1) << item;
    if (*item == 'c') continue;
    ASSERT_TRUE(store_->Run(AdvanceRound, {.round = store_->status()->round, .forced = ""})->closed);
  }
  clock_.Advance(std::chrono::hours(5));
  EXPECT_EQ(store_->Run(SettleStuckItems, {})->disputed, 1);
}

}  // namespace
}  // namespace fulcrum::storage
