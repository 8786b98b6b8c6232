// No vote is lost: what a batch holds besides new items, what the end of a campaign accepts, and the classifier's
// voice.
#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "storage/rules/round_rules.h"
#include "storage/rules/stuck_items.h"
#include "tests/unit/storage/rules/crowd_store_test.h"

namespace fulcrum::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class NextBatchTest : public CrowdStoreTest {
 protected:
  void Close(std::int64_t round) {
    const auto closed = store_->Run(AdvanceRound, {.round = round, .forced = "test"});
    ASSERT_TRUE(closed.ok()) << closed.status();
  }

  absl::StatusOr<CommitBatchAnswer> Commit(CommitBatchRequest request) {
    request.round = store_->status()->round + 1;
    return store_->Run(CommitBatch, std::move(request));
  }

  absl::StatusOr<std::int64_t> End() { return store_->Run(ChangeLife, {.life = Life::kDone, .reason = "test"}); }

  void Start() { ASSERT_TRUE(store_->Run(ChangeLife, {.life = Life::kRunning}).ok()); }

  std::vector<std::string> Waiting() {
    std::vector<std::string> items;
    for (const BatchedItem& item : VotedItems(Replayed())) items.push_back(item.item);
    return items;
  }

  /// The state from the log alone is that of a reader, which begins with a checkpoint if there is one.
  void CheckReplay() {
    Reopen();
    auto reader = CampaignReader::Open(Folder());
    ASSERT_TRUE(reader.ok()) << reader.status();
    ASSERT_TRUE((*reader)->CatchUp().ok());
    EXPECT_EQ((*reader)->state().Figures(), Replayed().Figures());
  }
};

TEST_F(NextBatchTest, ItemsWithVotesComeFirstInTheNextBatch) {
  Create(Adaptive());
  Batch({"a", "b", "c"});
  LabelNext("ada", "cat");
  LabelNext("ada", "dog");
  Close(1);
  EXPECT_THAT(Waiting(), ElementsAre("a", "b"));
  EXPECT_EQ(ItemNow("a").status, ItemStatus::kInPool);
  Reopen();
  ASSERT_TRUE(Commit({.items = {{"d", 0}}, .places = 3}).ok());
  EXPECT_EQ(store_->status()->round_items, 3) << "a, b and d; c has no vote";
  const GrantedLease first = Lease("bob");
  EXPECT_EQ(first.item, "a");
  ASSERT_TRUE(Submit("bob", first, "cat").ok());
  EXPECT_EQ(Lease("cy").item, "a") << "it kept the vote of the first round and needs a third";
  EXPECT_EQ(ItemNow("a").votes.size(), 2u);
  CheckReplay();
}

TEST_F(NextBatchTest, SoItIsWithAMajority) {
  CampaignSettings settings = Settings();
  settings.overlap = 2;
  settings.most_votes = 4;
  Create(settings);
  Batch({"a", "b"});
  LabelNext("ada", "cat");
  Close(1);
  ASSERT_TRUE(Commit({.items = {{"d", 0}}, .places = 2}).ok());
  LabelNext("bob", "cat");
  EXPECT_EQ(ItemNow("a").value, "cat");
}

TEST_F(NextBatchTest, ThereAreNoMoreThanThePlacesOfTheBatch) {
  Create(Adaptive());
  Batch({"a", "b", "c"});
  for (int i = 0; i < 3; ++i) LabelNext("ada", "cat");
  Close(1);
  ASSERT_TRUE(Commit({.items = {}, .places = 2}).ok());
  EXPECT_EQ(store_->status()->round_items, 2);
  EXPECT_EQ(ItemNow("c").status, ItemStatus::kInPool);
  Close(2);
  EXPECT_THAT(Waiting(), ElementsAre("c", "a", "b")) << "who waited comes first";
}

TEST_F(NextBatchTest, ABatchWithNothingLeftIsComputedAgain) {
  Create(Adaptive());
  Batch({"a"});
  Close(1);
  EXPECT_EQ(Commit({.items = {}, .places = 2}).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Commit({.items = {}}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(NextBatchTest, ARoundThatEndsSettlesWhatNobodyElseCanAnswer) {
  Create(Adaptive());
  Batch({"a", "b"});
  for (const char* const name : {"ada", "bob"}) LabelNext(name, "cat");
  Close(1);
  // Two of two annotators agree, with less confidence than was wanted.
  EXPECT_EQ(ItemNow("a").value, "cat");
  EXPECT_THAT(Waiting(), IsEmpty());
}

TEST_F(NextBatchTest, AtTheEndVotesDecideAsTheyAre) {
  Create(Adaptive());
  Start();
  Batch({"a", "b", "tie"});
  LabelNext("ada", "cat");
  LabelNext("ada", "dog");
  const GrantedLease of_tie = Lease("ada");
  ASSERT_TRUE(Submit("ada", of_tie, "cat").ok());
  // Somebody else who has a task on "tie" and answers it the other way.
  const auto tasks = Acquire("bob", 3);
  ASSERT_TRUE(tasks.ok());
  ASSERT_EQ(tasks->leases.size(), 3u);
  for (const GrantedLease& lease : tasks->leases) {
    if (lease.item != "tie") continue;
    ASSERT_TRUE(Submit("bob", lease, "dog").ok());
  }
  Close(1);
  ASSERT_TRUE(End().ok());
  const CampaignState state = Replayed();
  EXPECT_EQ(state.items().Find("a")->value, "cat");
  EXPECT_EQ(state.items().Find("b")->value, "dog");
  EXPECT_NE(state.items().Find("tie")->status, ItemStatus::kLabeled);
  EXPECT_GT(LabelWeight(state, "a"), 0.5);
  EXPECT_LT(LabelWeight(state, "a"), 0.95) << "it weighs as much as it is probable";
  // An answer that arrives after the end counts too.
  for (const GrantedLease& lease : tasks->leases) {
    if (lease.item != "a") continue;
    ASSERT_TRUE(Submit("bob", lease, "cat").ok());
  }
  EXPECT_GT(LabelWeight(Replayed(), "a"), LabelWeight(state, "a"));
  CheckReplay();
}

TEST_F(NextBatchTest, ACampaignThatIsStoppedDuringARoundLosesNoVote) {
  Create(Adaptive());
  Start();
  Batch({"a", "b"});
  LabelNext("ada", "cat");
  const GrantedLease late = Lease("bob");
  ASSERT_TRUE(End().ok());
  EXPECT_EQ(ItemNow("a").value, "cat");
  ASSERT_EQ(late.item, "a");
  ASSERT_TRUE(Submit("bob", late, "cat").ok());
  EXPECT_EQ(ItemNow("a").status, ItemStatus::kLabeled);
  EXPECT_EQ(ItemNow("a").votes.size(), 2u);
  CheckReplay();
}

TEST_F(NextBatchTest, AMajorityAcceptsNoFewerVotesThanAreWanted) {
  CampaignSettings settings = Settings();
  settings.overlap = 3;
  settings.most_votes = 5;
  Create(settings);
  Start();
  Batch({"a"});
  LabelNext("ada", "cat");
  Close(1);
  ASSERT_TRUE(End().ok());
  EXPECT_NE(ItemNow("a").status, ItemStatus::kLabeled);
}

class HeardTest : public NextBatchTest {
 protected:
  void SetUp() override {
    CampaignSettings settings = Adaptive();
    settings.classifier_weight = 0.5;
    settings.confidence = 0.85;
    Create(settings);
    Batch({"a", "b"});
    // 0.75^2 against 0.25^2: a probability of 0.9.
    for (const char* const name : {"ada", "bob"}) {
      LabelNext(name, "cat");
      LabelNext(name, "cat");
    }
    ASSERT_TRUE(store_->Run(EstimateAnnotators, {}).ok());
  }

  static Voices Say(const std::map<std::string, double>& cat) {
    Voices voices;
    for (const auto& [item, p] : cat) voices.probabilities[item] = {p, 1 - p};
    return voices;
  }
};

TEST_F(HeardTest, TheClassifierIsADiscountedVoice) {
  Close(1);
  const CampaignState before = Replayed();
  ASSERT_EQ(before.items().Find("a")->value, "cat");
  ASSERT_TRUE(Commit({.items = {{"c", 0}}, .places = 3, .voices = Say({{"a", 0.9}, {"b", 0.2}})}).ok());
  const CampaignState after = Replayed();
  EXPECT_GT(LabelWeight(after, "a"), LabelWeight(before, "a"));
  EXPECT_LT(LabelWeight(after, "b"), LabelWeight(before, "b"));
  EXPECT_EQ(after.items().Find("b")->value, "cat") << "two votes weigh more";
  // Odds of the votes times the square root of the classifier's, by the estimate of the log.
  const Item& item = *after.items().Find("b");
  const double votes = OpinionOf(item.votes, after.settings(), after.crowd())->confidence;
  const double priors = after.crowd()->model.priors[0] / after.crowd()->model.priors[1];
  const double odds = votes / (1 - votes) * std::sqrt(0.2 / 0.8) / std::sqrt(priors);
  EXPECT_NEAR(LabelWeight(after, "b"), odds / (1 + odds), 1e-9);
  // What is said next replaces what is said about the same items only.
  Close(2);
  ASSERT_TRUE(Commit({.items = {{"d", 0}}, .places = 3, .voices = Say({{"b", 0.5}})}).ok());
  EXPECT_EQ(LabelWeight(Replayed(), "a"), LabelWeight(after, "a"));
  EXPECT_GT(LabelWeight(Replayed(), "b"), LabelWeight(after, "b"));
  const double weight = LabelWeight(Replayed(), "b");
  Reopen();
  LabelNext("ada", "dog");
  EXPECT_NEAR(LabelWeight(Replayed(), "b"), weight, 0.1);
}

TEST_F(HeardTest, WithoutWeightItSaysNothing) {
  CampaignSettings settings = Replayed().settings();
  settings.classifier_weight = 0;
  Close(1);
  ASSERT_TRUE(store_->Run(ChangeSettings, {.settings = settings}).ok());
  const double before = LabelWeight(Replayed(), "b");
  ASSERT_TRUE(Commit({.items = {{"c", 0}}, .places = 3, .voices = Say({{"b", 0.1}})}).ok());
  EXPECT_EQ(LabelWeight(Replayed(), "b"), before);
}

TEST_F(NextBatchTest, AFirstVoteThatIsProbableEnoughDecidesAndMayBeAskedAboutAgain) {
  CampaignSettings settings = Adaptive();
  settings.first_confidence = 0.7;
  settings.classifier_weight = 0.5;
  Create(settings);
  Batch({"a", "b"});
  LabelNext("ada", "cat");
  LabelNext("bob", "dog");
  // Somebody's vote is right with 0.75.
  EXPECT_EQ(ItemNow("a").status, ItemStatus::kLabeled);
  EXPECT_NEAR(LabelWeight(Replayed(), "a"), 0.75, 1e-9);
  Close(1);
  ASSERT_TRUE(store_->Run(EstimateAnnotators, {}).ok());
  EXPECT_THAT(Waiting(), IsEmpty());
  Voices voices;
  voices.probabilities["sure"] = {0.999, 0.001};
  const CampaignState state = Replayed();
  ASSERT_EQ(DoubtfulItems(state, voices, {"sure"}, 5).size(), 2u);
  ASSERT_TRUE(Commit({.items = {{"c", 0}}, .again = {{"a", 0}}, .places = 2}).ok());
  EXPECT_EQ(ItemNow("a").status, ItemStatus::kOffered) << "it needs another vote now";
  CheckReplay();
  const GrantedLease again = Lease("bob");
  ASSERT_EQ(again.item, "a");
  ASSERT_TRUE(Submit("bob", again, "cat").ok());
  EXPECT_EQ(ItemNow("a").status, ItemStatus::kLabeled) << "0.9 is enough for a vote of this round";
  LabelNext("ada", "cat");
  EXPECT_TRUE(store_->Run(AdvanceRound, {.round = 2})->closed);
  // Without the vote that was wanted it keeps the label that it had.
  ASSERT_TRUE(Commit({.items = {{"d", 0}}, .again = {{"b", 0}}, .places = 2}).ok());
  EXPECT_EQ(ItemNow("b").status, ItemStatus::kOffered);
  LabelNext("cy", "cat");
  EXPECT_EQ(ItemNow("b").status, ItemStatus::kOffered) << "the votes differ";
  CheckReplay();
}

TEST_F(HeardTest, ALabelInDoubtIsAskedAboutIfThatSaysMoreThanANewItem) {
  Close(1);
  ASSERT_TRUE(Commit({.items = {{"c", 0}}, .places = 3}).ok());
  // From now on there is a third annotator.
  LabelNext("cy", "dog");
  LabelNext("ada", "dog");
  Close(2);
  const CampaignState state = Replayed();
  const Voices voices = Say({{"a", 0.95}, {"b", 0.02}, {"sure", 0.999}, {"unsure", 0.5}});
  const auto ids = [](const std::vector<BatchedItem>& items) {
    std::vector<std::string> names;
    for (const BatchedItem& item : items) names.push_back(item.item);
    return names;
  };
  EXPECT_THAT(ids(DoubtfulItems(state, voices, {"sure"}, 5)), ElementsAre("b"));
  EXPECT_THAT(ids(DoubtfulItems(state, voices, {"unsure"}, 5)), IsEmpty()) << "a new item says more";
  EXPECT_THAT(ids(DoubtfulItems(state, voices, {"sure"}, 0)), IsEmpty());
  const std::int64_t labeled = store_->status()->items_by_status[static_cast<std::size_t>(ItemStatus::kLabeled)];
  ASSERT_TRUE(Commit({.items = {{"sure", 0}}, .again = {{"b", 0}}, .places = 3, .voices = voices}).ok());
  EXPECT_EQ(ItemNow("b").status, ItemStatus::kOffered);
  EXPECT_EQ(store_->status()->round_labeled, 0);
  EXPECT_EQ(store_->status()->items_by_status[static_cast<std::size_t>(ItemStatus::kLabeled)], labeled - 1);
  // Those who answered it are not asked again.
  EXPECT_EQ(Lease("ada").item, "sure");
  const auto tasks = Acquire("cy", 2);
  ASSERT_TRUE(tasks.ok());
  ASSERT_EQ(tasks->leases.size(), 1u);
  ASSERT_EQ(tasks->leases[0].item, "b");
  ASSERT_TRUE(Submit("cy", tasks->leases[0], "cat").ok());
  EXPECT_EQ(ItemNow("b").votes.size(), 3u);
  CheckReplay();
  // An imported label is certain.
  ASSERT_TRUE(store_->Run(ImportLabels, {.source = "file", .request_id = NewId(), .labels = {{"a", "dog"}}}).ok());
  Close(3);
  EXPECT_EQ(Commit({.items = {{"x", 0}}, .again = {{"a", 0}}}).status().code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace fulcrum::storage
