// Votes of different worth: adaptive overlap, estimates in the log, gold items, pauses, and the report.
#include "storage/rules/annotator_rules.h"

#include <gmock/gmock.h>

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "stages/core/random.h"
#include "storage/campaign_reader.h"
#include "storage/maintenance/maintenance.h"
#include "storage/rules/stuck_items.h"
#include "storage/state/crowd.h"
#include "tests/unit/storage/rules/crowd_store_test.h"

namespace fulcrum::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class AnnotatorRulesTest : public CrowdStoreTest {};

TEST_F(AnnotatorRulesTest, AnItemGetsVotesUntilItsClassIsProbableEnough) {
  Create(Adaptive());
  Batch({"a"});
  LabelNext("ada", "cat");
  EXPECT_EQ(ItemNow("a").status, ItemStatus::kOffered);
  EXPECT_EQ(store_->status()->open_slots, 1u);
  LabelNext("bob", "cat");
  EXPECT_EQ(ItemNow("a").status, ItemStatus::kOffered);
  LabelNext("cy", "cat");
  // Three annotators of whom nothing is known: 0.75^3 against 0.25^3.
  const Item item = ItemNow("a");
  EXPECT_EQ(item.status, ItemStatus::kLabeled);
  EXPECT_EQ(item.value, "cat");
  const auto opinion = OpinionOf(item.votes, Adaptive(), nullptr);
  EXPECT_NEAR(opinion->confidence, 27.0 / 28, 1e-12);
}

TEST_F(AnnotatorRulesTest, TheMostVotesDecideAndATieIsADispute) {
  CampaignSettings settings = Adaptive();
  settings.most_votes = 3;
  Create(settings);
  Batch({"a"});
  for (const char* const name : {"ada", "bob"}) LabelNext(name, "cat");
  LabelNext("cy", "dog");
  EXPECT_EQ(ItemNow("a").value, "cat");
  settings.most_votes = 2;
  ASSERT_TRUE(store_->Run(AdvanceRound, {.round = 1, .forced = "test"}).ok());
  ASSERT_TRUE(store_->Run(ChangeSettings, {.settings = settings}).ok());
  Batch({"b"});
  LabelNext("ada", "cat");
  LabelNext("bob", "dog");
  EXPECT_EQ(ItemNow("b").status, ItemStatus::kDisputed);
}

TEST_F(AnnotatorRulesTest, EstimatesAreInTheLogAndGoodAnnotatorsNeedFewerVotes) {
  Create(Adaptive());
  Random random(1);
  const std::map<std::string, double> accuracy = {{"bad", 0.55}, {"fair", 0.75}, {"good", 0.97}, {"great", 0.98}};
  Batch(Items("x", 60));
  AnswerAll(accuracy, random);
  ASSERT_TRUE(store_->Run(EstimateAnnotators, {}).ok());
  const CampaignState state = Replayed();
  ASSERT_NE(state.crowd(), nullptr);
  EXPECT_THAT(state.crowd()->annotators, ElementsAre("bad", "fair", "good", "great"));
  EXPECT_GT(state.crowd()->model.accuracy[3], state.crowd()->model.accuracy[0] + 0.2);
  std::size_t right = 0;
  state.items().Visit([&](const Item& item) { right += item.value == TruthOf(item.id) ? 1 : 0; });
  EXPECT_GE(right, 55u);
  // One good vote is enough now, and one bad one is not.
  const std::vector<Vote> good = {{.annotator = "great", .value = "dog"}}, bad = {{.annotator = "bad", .value = "dog"}};
  EXPECT_GT(OpinionOf(good, Adaptive(), state.crowd())->confidence,
            OpinionOf(bad, Adaptive(), state.crowd())->confidence + 0.2);
  // Nothing new: no new estimate.
  const auto again = store_->Run(EstimateAnnotators, {});
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(again->estimated);
}

TEST_F(AnnotatorRulesTest, TheStateIsAFunctionOfTheLog) {
  CampaignSettings settings = Adaptive();
  settings.gold_rate = 0.3;
  settings.pause_below = 0.7;
  Create(settings);
  Random random(2);
  ImportRequest gold{.source = kGoldSource, .request_id = NewId()};
  for (const std::string& item : Items("g", 20)) gold.labels.push_back({item, TruthOf(item)});
  ASSERT_TRUE(store_->Run(ImportLabels, gold).ok());
  const std::map<std::string, double> accuracy = {{"spam", 0.5}, {"fair", 0.8}, {"good", 0.9}, {"great", 0.95}};
  for (int round = 1; round <= 4; ++round) {
    Batch(Items(absl::StrCat("r", round, "-"), 40));
    AnswerAll(accuracy, random);
    ASSERT_TRUE(store_->Run(EstimateAnnotators, {}).ok());
    ASSERT_TRUE(store_->Run(AdvanceRound, {.round = round, .forced = "test"}).ok());
    if (round == 2) Reopen();
  }
  const CampaignState from_log = Replayed();
  auto reader = CampaignReader::Open(Folder());
  ASSERT_TRUE(reader.ok());
  ASSERT_TRUE((*reader)->CatchUp().ok());
  const CampaignState& from_checkpoint = (*reader)->state();
  EXPECT_EQ(from_log.Figures(), from_checkpoint.Figures());
  EXPECT_EQ(from_log.items().DecidedLabels(), from_checkpoint.items().DecidedLabels());
}

TEST_F(AnnotatorRulesTest, GoldItemsAreMixedInAndLookLikeOthers) {
  CampaignSettings settings = Adaptive();
  settings.gold_rate = 0.25;
  Create(settings);
  ImportRequest gold{.source = kGoldSource, .request_id = NewId()};
  for (const std::string& item : Items("g", 200)) gold.labels.push_back({item, "cat"});
  ASSERT_TRUE(store_->Run(ImportLabels, gold).ok());
  Batch(Items("x", 400));
  int known = 0;
  std::set<std::string> seen;
  for (int i = 0; i < 300; ++i) {
    const GrantedLease lease = Lease("ada");
    EXPECT_EQ(lease.round, 1);
    EXPECT_TRUE(seen.insert(lease.item).second) << lease.item << " twice";
    known += lease.item[0] == 'g' ? 1 : 0;
    ASSERT_TRUE(Submit("ada", lease, lease.item[0] == 'g' ? "dog" : "cat").ok());
  }
  EXPECT_NEAR(known, 75, 25);
  // A wrong answer does not change what is known.
  EXPECT_EQ(ItemNow(*seen.begin()).value, "cat");
  ASSERT_TRUE(store_->Run(EstimateAnnotators, {}).ok());
  EXPECT_LT(Replayed().crowd()->model.accuracy[0], 0.2);
}

TEST_F(AnnotatorRulesTest, SkippedAndExpiredGoldTasksLeaveNothingBehind) {
  CampaignSettings settings = Adaptive();
  settings.gold_rate = 0.999;
  Create(settings);
  ASSERT_TRUE(store_->Run(ImportLabels, {.source = kGoldSource, .request_id = NewId(), .labels = {{"g", "cat"}}}).ok());
  Batch({"a", "b"});
  const GrantedLease lease = Lease("ada");
  ASSERT_EQ(lease.item, "g");
  ASSERT_TRUE(Skip("ada", lease, SkipReason::kBadItem).ok());
  EXPECT_EQ(Lease("ada").item, "a") << "a skipped one is not offered to the same annotator again";
  const GrantedLease other = Lease("bob");
  ASSERT_EQ(other.item, "g");
  clock_.Advance(std::chrono::minutes(11));
  EXPECT_EQ(Lease("cy").item, "g");
  EXPECT_EQ(ItemNow("g").status, ItemStatus::kLabeled);
  // A late answer counts.
  ASSERT_TRUE(Submit("bob", other, "cat").ok());
  EXPECT_EQ(ItemNow("g").votes.size(), 1u);
}

TEST_F(AnnotatorRulesTest, AnAnnotatorBelowTheSetAccuracyIsPausedWithAReason) {
  CampaignSettings settings = Adaptive();
  settings.pause_below = 0.75;
  Create(settings);
  Random random(3);
  const std::map<std::string, double> accuracy = {{"ada", 0.95}, {"bob", 0.9}, {"cy", 0.95}, {"spam", 0.4}};
  Batch(Items("x", 150));
  AnswerAll(accuracy, random);
  ASSERT_TRUE(store_->Run(EstimateAnnotators, {}).ok());
  const CampaignState state = Replayed();
  ASSERT_EQ(state.paused().size(), 1u);
  EXPECT_EQ(state.paused().begin()->first, "spam");
  EXPECT_THAT(state.paused().begin()->second, HasSubstr("at least 0.75 is required"));
  ASSERT_TRUE(store_->Run(AdvanceRound, {.round = 1, .forced = "test"}).ok());
  Batch({"y0"});
  const auto refused = Acquire("spam");
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("paused"));
  ASSERT_TRUE(store_->Run(ResumeAnnotator, {.annotator = "spam", .by = "admin"}).ok());
  LabelNext("spam", "dog");
  ASSERT_TRUE(store_->Run(EstimateAnnotators, {}).ok());
  EXPECT_TRUE(Replayed().paused().empty()) << "the rule overruled an administrator";
  EXPECT_EQ(store_->Run(ResumeAnnotator, {.annotator = "spam", .by = "admin"}).status().code(),
            absl::StatusCode::kNotFound);
  ASSERT_TRUE(store_->Run(PauseAnnotator, {.annotator = "ada", .by = "admin", .reason = "on leave"}).ok());
  Reopen();
  EXPECT_THAT(std::string(Acquire("ada").status().message()), HasSubstr("on leave"));
}

TEST_F(AnnotatorRulesTest, TheExportHasTheConfidenceAndTheAnnotatorsAccuracy) {
  Create(Adaptive());
  ASSERT_TRUE(store_->Run(ImportLabels, {.source = kGoldSource, .request_id = NewId(), .labels = {{"g", "cat"}}}).ok());
  Batch(Items("x", 30));
  Random random(4);
  AnswerAll({{"ada", 0.95}, {"bob", 0.9}, {"cy", 0.6}, {"dan", 0.8}, {"eve", 0.8}}, random);
  auto reader = CampaignReader::Open(Folder());
  ASSERT_TRUE(reader.ok());
  std::map<std::string, double> accuracy;
  ASSERT_TRUE(VisitLabels(**reader, [&](const ExportedLabel& label) {
                const CampaignState& state = (*reader)->state();
                const Item& item = *state.items().Find(label.event.item);
                if (!item.imported.empty()) {
                  EXPECT_EQ(label.confidence, 1);
                  EXPECT_FALSE(label.annotator_accuracy);
                } else {
                  EXPECT_EQ(label.confidence.has_value(), item.status == ItemStatus::kLabeled);
                  if (label.confidence) {
                    EXPECT_EQ(*label.confidence, OpinionOf(item.votes, state.settings(), state.crowd())->confidence);
                  }
                  accuracy[label.event.annotator] = label.annotator_accuracy.value_or(0);
                }
                return absl::OkStatus();
              }).ok());
  EXPECT_EQ(accuracy.size(), 5u);
  EXPECT_GT(accuracy["ada"], accuracy["cy"]);
}

TEST_F(AnnotatorRulesTest, TheExportNamesLikelyErrorsByWhatTheClassifierHasSaid) {
  CampaignSettings settings = Adaptive();
  settings.classifier_weight = 0.1;
  Create(settings);
  Batch(Items("x", 20));
  Random random(4);
  AnswerAll({{"ada", 1}, {"bob", 1}, {"cy", 1}, {"dan", 1}}, random);
  CommitBatchRequest next{.round = 2, .items = {{"y0", 0}}};
  for (const std::string& item : Items("x", 20)) {
    const bool cat = TruthOf(item) == "cat";
    next.voices.probabilities[item] =
        item == "x7" ? std::vector{0.9, 0.1} : std::vector{cat ? 0.8 : 0.2, cat ? 0.2 : 0.8};
  }
  ASSERT_TRUE(store_->Run(AdvanceRound, {.round = 1, .forced = "test"}).ok());
  ASSERT_TRUE(store_->Run(CommitBatch, next).ok());
  const auto suggested = [&](std::optional<LikelyErrors> errors) {
    auto reader = CampaignReader::Open(Folder());
    EXPECT_TRUE(reader.ok());
    LabelPager pager(**reader, std::move(errors));
    std::map<std::string, std::string> found;
    const auto page = pager.Next(1000);
    EXPECT_TRUE(page.ok()) << page.status();
    for (const ExportedLabel& label : *page) {
      if (!label.suggested.empty()) found[label.event.item] = label.suggested;
    }
    return found;
  };
  EXPECT_EQ(suggested(std::nullopt), (std::map<std::string, std::string>{{"x7", "cat"}}));
  EXPECT_EQ(suggested(LikelyErrors{{"x2", "dog"}}), (std::map<std::string, std::string>{{"x2", "dog"}}));
  EXPECT_TRUE(suggested(LikelyErrors()).empty());
}

TEST_F(AnnotatorRulesTest, TextsOfPausesAreChecked) {
  Create(Adaptive());
  for (const AnnotatorRequest& bad :
       {AnnotatorRequest{.annotator = "ada", .by = "admin", .reason = "on\nleave"},
        AnnotatorRequest{.annotator = "", .by = "admin"},
        AnnotatorRequest{.annotator = "ada", .by = "admin", .reason = std::string(1 << 20, 'x')}}) {
    EXPECT_EQ(store_->Run(PauseAnnotator, bad).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(store_->Run(ResumeAnnotator, bad).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(Replayed().paused().empty());
}

TEST_F(AnnotatorRulesTest, ALateVoteDoesNotTakeALabelAway) {
  CampaignSettings settings = Adaptive();
  settings.confidence = 0.99;
  Create(settings);
  Batch({"a"});
  for (const char* const name : {"ada", "bob"}) LabelNext(name, "cat");
  const GrantedLease late = Lease("cy");
  clock_.Advance(std::chrono::minutes(11));
  ASSERT_TRUE(store_->Run(SettleStuckItems, {}).ok());
  ASSERT_EQ(ItemNow("a").value, "cat");
  ASSERT_TRUE(store_->Run(AdvanceRound, {.round = 1, .forced = ""})->closed);
  // In doubt again, and nobody would be asked.
  ASSERT_TRUE(Submit("cy", late, "dog").ok());
  const Item item = ItemNow("a");
  EXPECT_EQ(item.status, ItemStatus::kLabeled);
  EXPECT_EQ(item.value, "cat");
  EXPECT_LT(OpinionOf(item.votes, settings, Replayed().crowd())->confidence, 0.99);
}

TEST_F(AnnotatorRulesTest, WhoTakesManyTasksIsNotSlower) {
  Create(Adaptive());
  Batch(Items("x", 10));
  const auto answer = Acquire("ada", 10);
  ASSERT_TRUE(answer.ok());
  for (const GrantedLease& lease : answer->leases) {
    clock_.Advance(std::chrono::seconds(3));
    ASSERT_TRUE(Submit("ada", lease, "cat").ok());
  }
  auto reader = CampaignReader::Open(Folder());
  ASSERT_TRUE(reader.ok());
  EXPECT_NEAR(*ReportAnnotators(**reader, {"cat", "dog"})->annotators[0].answer_seconds, 3, 1e-6);
}

TEST_F(AnnotatorRulesTest, TheReportHasQualitySpeedSkipsAndAgreement) {
  CampaignSettings settings = Adaptive();
  settings.confidence = 0;
  settings.overlap = 2;
  settings.most_votes = 2;
  Create(settings);
  Batch(Items("x", 30));
  for (int i = 0; i < 30; ++i) {
    for (const char* const name : {"ada", "bob"}) {
      const GrantedLease lease = Lease(name);
      clock_.Advance(std::chrono::seconds(name[0] == 'a' ? 4 : 9));
      ASSERT_TRUE(Submit(name, lease, TruthOf(lease.item)).ok());
    }
  }
  ASSERT_TRUE(store_->Run(AdvanceRound, {.round = 1, .forced = "test"}).ok());
  Batch({"y0", "y1"});
  ASSERT_TRUE(Skip("ada", Lease("ada"), SkipReason::kUnsure).ok());
  auto reader = CampaignReader::Open(Folder());
  ASSERT_TRUE(reader.ok());
  const auto report = ReportAnnotators(**reader, {"cat", "dog"});
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->annotators.size(), 2u);
  const AnnotatorSummary& ada = report->annotators[0];
  EXPECT_EQ(ada.name, "ada");
  EXPECT_EQ(ada.quality.votes, 30u);
  EXPECT_GT(ada.quality.accuracy, 0.9);
  EXPECT_EQ(ada.skips, 1);
  EXPECT_NEAR(ada.SkipRate(), 1.0 / 31, 1e-12);
  EXPECT_NEAR(*ada.answer_seconds, 4, 1e-6);
  EXPECT_NEAR(*report->annotators[1].answer_seconds, 9, 1e-6);
  EXPECT_NEAR(*report->fleiss_kappa, 1, 1e-9);
  EXPECT_NEAR(*report->krippendorff_alpha, 1, 1e-9);
  EXPECT_NEAR(*report->cohen_kappa, 1, 1e-9);
}

TEST(CrowdTest, TextRoundTrip) {
  Crowd crowd{.annotators = {"ada", "b\"ob"}};
  crowd.model = consensus::PriorModel(3);
  crowd.model.accuracy = {0.7, 1.0 / 3};
  for (int k = 0; k < 18; ++k) crowd.model.confusion.push_back(1.0 / (k + 2));
  const auto read = CrowdFromText(CrowdToText(crowd));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, crowd);
  EXPECT_FALSE(CrowdFromText("[[0.7,0.5]]").ok());
  EXPECT_FALSE(CrowdFromText("[[0.7,0.5,0.5],[\"ada\",0.7,1]]").ok());
}

}  // namespace
}  // namespace fulcrum::storage
