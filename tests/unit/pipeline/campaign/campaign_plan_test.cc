#include "pipeline/campaign/campaign_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "absl/strings/str_cat.h"
#include "fulcrum/v1/campaign_spec.pb.h"
#include "pipeline/campaign/stored_text.h"

namespace fulcrum::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::CampaignSpec SmallSpec() {
  v1::CampaignSpec spec;
  spec.set_name("birds-1");
  spec.mutable_pool()->add_sources("birds.parquet");
  spec.add_classes("owl");
  spec.add_classes("crow");
  return spec;
}

TEST(PlanCampaign, FillsInEveryDefault) {
  const auto plan = PlanCampaign(SmallSpec());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(plan->round.tune);
  EXPECT_TRUE(plan->round.leverage_follows);
  EXPECT_EQ(plan->round.strategy, "adaptive-herding");
  EXPECT_EQ(plan->round.batch, 10u);
  EXPECT_EQ(plan->round.tau, 0.5);
  EXPECT_EQ(plan->round.svm.c, 1);
  EXPECT_EQ(plan->round.seed, 1u);
  EXPECT_EQ(plan->settings.overlap, 1);
  EXPECT_EQ(plan->settings.most_votes, 3);
  EXPECT_EQ(plan->settings.lease_time, std::chrono::minutes(10));
  EXPECT_EQ(plan->settings.label_budget, 0);
}

TEST(PlanCampaign, RoundsAreJobsOnlyIfTheyCanBe) {
  v1::CampaignSpec spec = SmallSpec();
  EXPECT_FALSE(PlanCampaign(spec)->cluster.has_value());
  spec.mutable_selection()->mutable_cluster()->set_launcher("eight");
  const auto plan = PlanCampaign(spec);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->cluster->launcher, "eight");
  EXPECT_EQ(plan->cluster->timeout, std::chrono::hours(24));
  spec.mutable_selection()->mutable_cluster()->mutable_timeout()->set_seconds(90);
  EXPECT_EQ(PlanCampaign(spec)->cluster->timeout, std::chrono::seconds(90));
  spec.mutable_selection()->mutable_cluster()->clear_launcher();
  spec.mutable_selection()->set_cost_budget(5);
  spec.mutable_classifier()->mutable_external();
  EXPECT_THAT(std::string(PlanCampaign(spec).status().message()),
              AllOf(HasSubstr("selection.cluster.launcher: is missing"), HasSubstr("leave selection.cost_budget out"),
                    HasSubstr("leave classifier.external out")));
}

void AddWeight(const std::string& name, double weight, v1::CampaignSpec& spec) {
  v1::ClassWeight& entry = *spec.mutable_classifier()->add_class_weights();
  entry.set_name(name);
  entry.set_weight(weight);
}

TEST(PlanCampaign, WeightsOfClassesAreInTheOrderOfTheClasses) {
  v1::CampaignSpec spec = SmallSpec();
  EXPECT_TRUE(PlanCampaign(spec)->round.svm.class_weights.empty());
  AddWeight("crow", 3, spec);
  const auto plan = PlanCampaign(spec);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->round.svm.class_weights, ElementsAre(1, 3));
  EXPECT_TRUE(plan->round.tune) << "the other settings are chosen all the same";
}

TEST(PlanCampaign, WeightsMustBeOfItsClassesOnceEachAndPositive) {
  const auto problem = [](const std::string& name, double weight) {
    v1::CampaignSpec spec = SmallSpec();
    AddWeight("owl", 2, spec);
    AddWeight(name, weight, spec);
    return std::string(PlanCampaign(spec).status().message());
  };
  EXPECT_THAT(problem("jay", 1), HasSubstr("'jay' is not one of the classes"));
  EXPECT_THAT(problem("owl", 1), HasSubstr("the class 'owl' is listed twice"));
  EXPECT_THAT(problem("crow", 0), HasSubstr("classifier.class_weights[1].weight"));
  EXPECT_THAT(problem("crow", std::numeric_limits<double>::infinity()),
              HasSubstr("classifier.class_weights[1].weight"));
}

TEST(PlanCampaign, ExplicitSettingsOfTheClassifierSwitchTuningOff) {
  v1::CampaignSpec off = SmallSpec(), penalty = SmallSpec(), normalized = SmallSpec(), both = SmallSpec();
  off.mutable_classifier()->set_tune(v1::TUNING_OFF);
  penalty.mutable_classifier()->set_c(2);
  normalized.mutable_features()->add_normalize(v1::NORMALIZATION_UNIT);
  for (const v1::CampaignSpec* spec : {&off, &penalty, &normalized}) {
    const auto plan = PlanCampaign(*spec);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_FALSE(plan->round.tune);
    EXPECT_FALSE(plan->normalize.empty());
  }
  EXPECT_THAT(PlanCampaign(off)->normalize, ElementsAre(ingest::NormalizeStep::kZscore, ingest::NormalizeStep::kUnit));
  both.mutable_classifier()->set_tune(v1::TUNING_AUTO);
  both.mutable_classifier()->set_c(2);
  EXPECT_THAT(std::string(PlanCampaign(both).status().message()), HasSubstr("classifier.tune: is auto"));
}

TEST(PlanCampaign, TakesWhatIsSaid) {
  v1::CampaignSpec spec = SmallSpec();
  spec.mutable_selection()->set_strategy("alevs");
  spec.mutable_selection()->mutable_kernel()->set_type(v1::KernelSpec::TYPE_POLY);
  spec.mutable_selection()->set_leverage_scale(v1::LEVERAGE_SCALE_MEAN);
  spec.mutable_labeling()->set_overlap(3);
  spec.mutable_labeling()->mutable_lease_time()->set_seconds(90);
  spec.mutable_advance()->mutable_soft_time()->set_seconds(3600);
  spec.mutable_stop()->set_labels(500);
  spec.mutable_stop()->set_cost(12.5);
  spec.mutable_stop()->mutable_plateau()->set_rounds(4);
  const auto plan = PlanCampaign(spec);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->round.strategy, "alevs");
  EXPECT_EQ(plan->round.leverage_kernel.type, kernel::KernelType::kPoly);
  EXPECT_EQ(plan->round.leverage_kernel.degree, 4);
  EXPECT_EQ(plan->round.leverage_scale, select::LeverageScale::kMean);
  EXPECT_EQ(plan->settings.overlap, 3);
  EXPECT_EQ(plan->settings.most_votes, 5);
  EXPECT_EQ(plan->settings.lease_time, std::chrono::seconds(90));
  EXPECT_EQ(plan->settings.policy.soft_time, std::chrono::hours(1));
  EXPECT_FALSE(plan->settings.policy.learn_soft);
  EXPECT_TRUE(plan->settings.policy.learn_hard);
  EXPECT_EQ(plan->settings.label_budget, 500);
  EXPECT_EQ(plan->settings.cost_budget, 12.5);
  EXPECT_EQ(plan->stop.plateau_rounds, 4);
  EXPECT_EQ(plan->stop.plateau_improvement, 0.001);
}

TEST(PlanCampaign, SaysAllThatIsWrongAtOnce) {
  v1::CampaignSpec spec = SmallSpec();
  spec.set_name("../birds");
  spec.mutable_pool()->clear_sources();
  spec.set_classes(1, "owl");
  spec.mutable_selection()->set_alpha(-1);
  spec.mutable_selection()->set_batch(0);
  spec.mutable_classifier()->set_c(0);
  spec.mutable_stop()->mutable_accuracy()->set_target(2);
  spec.mutable_stop()->mutable_plateau()->set_improvement(1);
  const auto plan = PlanCampaign(spec);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(plan.status().message()),
      AllOf(HasSubstr("name: "), HasSubstr("pool.sources: "), HasSubstr("classes: "), HasSubstr("selection.alpha: "),
            HasSubstr("selection.batch: "), HasSubstr("classifier.c: "), HasSubstr("stop.accuracy.target: "),
            HasSubstr("stop.accuracy.sources: "), HasSubstr("stop.plateau.improvement: ")));
}

TEST(PlanCampaign, RefusesNumbersThatTheDaemonCannotCarry) {
  v1::CampaignSpec spec = SmallSpec();
  spec.mutable_labeling()->set_overlap(2147483647);
  spec.mutable_labeling()->mutable_lease_time()->set_seconds(80'000'000LL * 3600);
  spec.mutable_advance()->mutable_hard_time()->set_seconds(std::numeric_limits<std::int64_t>::max());
  EXPECT_THAT(std::string(PlanCampaign(spec).status().message()),
              AllOf(HasSubstr("labeling.overlap: is 2147483647; it must be at least 0 and at most 1000"),
                    HasSubstr("labeling.lease_time: is 288000000000s; it must be at least 0.001s"),
                    HasSubstr("advance.hard_time: ")));
}

TEST(CampaignPlanTest, AdaptiveOverlapIsAConsensus) {
  v1::CampaignSpec spec = SmallSpec();
  spec.mutable_labeling()->set_overlap(0);
  const auto plan = PlanCampaign(spec);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->settings.consensus, storage::CampaignSettings::Consensus::kDawidSkene);
  EXPECT_EQ(plan->settings.overlap, 1);
  EXPECT_EQ(plan->settings.most_votes, 5);
  EXPECT_EQ(plan->settings.confidence, 0.95);
  EXPECT_EQ(plan->settings.first_confidence, 0);
  EXPECT_EQ(plan->settings.classifier_weight, 0.5);
  EXPECT_EQ(plan->settings.classes, plan->classes);
  EXPECT_EQ(plan->settings.gold_rate, 0);
  spec.mutable_labeling()->set_classifier_weight(0);
  EXPECT_EQ(PlanCampaign(spec)->settings.classifier_weight, 0);
  spec.mutable_labeling()->set_classifier_weight(0.25);
  EXPECT_EQ(PlanCampaign(spec)->settings.classifier_weight, 0.25);
  spec.mutable_labeling()->set_confidence(0.7);
  spec.mutable_labeling()->set_first_confidence(0.71);
  EXPECT_THAT(std::string(PlanCampaign(spec).status().message()), HasSubstr("first_confidence is 0.71 but must be at"));
  spec.mutable_labeling()->set_first_confidence(0.6);
  EXPECT_EQ(PlanCampaign(spec)->settings.first_confidence, 0.6);
  spec.mutable_labeling()->mutable_gold();
  EXPECT_EQ(PlanCampaign(spec)->settings.gold_rate, 0.1);
  spec.mutable_labeling()->set_consensus(v1::CONSENSUS_MAJORITY);
  spec.mutable_labeling()->set_confidence(0.9);
  EXPECT_THAT(std::string(PlanCampaign(spec).status().message()),
              AllOf(HasSubstr("labeling.overlap: is auto, which needs"), HasSubstr("labeling.confidence: needs"),
                    HasSubstr("labeling.classifier_weight: needs")));
}

TEST(PlanCampaign, AStreamHasOneBudget) {
  v1::CampaignSpec spec = SmallSpec();
  EXPECT_FALSE(PlanCampaign(spec)->stream);
  v1::StreamSpec& stream = *spec.mutable_selection()->mutable_stream();
  EXPECT_THAT(std::string(PlanCampaign(spec).status().message()), HasSubstr("selection.stream: needs a budget"));
  stream.set_labels(200);
  auto plan = PlanCampaign(spec);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_DOUBLE_EQ(plan->stream->options.budget.per_second, 200.0 / 3600);
  EXPECT_EQ(plan->stream->options.budget.share, 0);
  EXPECT_EQ(plan->stream->options.drift.window, 500u);
  EXPECT_EQ(plan->stream->keep_share, 0);
  stream.mutable_period()->set_seconds(60);
  EXPECT_DOUBLE_EQ(PlanCampaign(spec)->stream->options.budget.per_second, 200.0 / 60);
  stream.set_share(0.01);
  EXPECT_FALSE(PlanCampaign(spec).ok()) << "both";
  stream.clear_labels();
  EXPECT_THAT(std::string(PlanCampaign(spec).status().message()), HasSubstr("selection.stream.period"));
  stream.clear_period();
  stream.set_keep(v1::StreamSpec::KEEP_ALL);
  EXPECT_EQ(PlanCampaign(spec)->stream->keep_share, 1);
  stream.set_keep_share(0.5);
  EXPECT_THAT(std::string(PlanCampaign(spec).status().message()), HasSubstr("needs 'keep: sample'"));
  stream.set_keep(v1::StreamSpec::KEEP_SAMPLE);
  plan = PlanCampaign(spec);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->stream->keep_share, 0.5);
  EXPECT_EQ(plan->stream->options.budget.share, 0.01);
  stream.set_share(1.5);
  EXPECT_THAT(std::string(PlanCampaign(spec).status().message()), HasSubstr("selection.stream.share"));
}

TEST(PlanCampaign, LimitsTheTasksOfARound) {
  v1::CampaignSpec spec = SmallSpec();
  spec.mutable_selection()->set_batch(1'000'000);
  EXPECT_TRUE(PlanCampaign(spec).ok());
  spec.mutable_labeling()->set_overlap(2);
  EXPECT_THAT(std::string(PlanCampaign(spec).status().message()), HasSubstr("2000000 tasks per round"));
}

TEST(PlanCampaign, LimitsTheTextsOfATask) {
  v1::CampaignSpec spec = SmallSpec();
  spec.set_question(std::string(64 << 10, 'q'));
  for (int i = 2; i < 1000; ++i) spec.add_classes(absl::StrCat("class", i));
  EXPECT_TRUE(PlanCampaign(spec).ok()) << PlanCampaign(spec).status();
  spec.mutable_question()->push_back('q');
  spec.add_classes(std::string(64 << 10, 'c'));
  EXPECT_THAT(std::string(PlanCampaign(spec).status().message()),
              AllOf(HasSubstr("question: it has 65537 bytes"), HasSubstr("classes: there are 1001; at most 1000"),
                    HasSubstr("bytes together; at most 65536")));
}

TEST(CheckCampaignName, LetsNoPathThrough) {
  for (const char* good : {"a", "birds-2_b", "0"}) EXPECT_TRUE(CheckCampaignName(good).ok()) << good;
  for (const std::string bad : {"", "..", "a/b", "A", "-a", "a b", "a\n", "ü"}) {
    EXPECT_FALSE(CheckCampaignName(bad).ok()) << bad;
  }
  EXPECT_FALSE(CheckCampaignName(std::string(64, 'a')).ok());
}

TEST(StoredText, ComesBackAsItWas) {
  v1::CampaignSpec spec = SmallSpec();
  spec.mutable_labeling()->mutable_lease_time()->set_seconds(90);
  spec.mutable_selection()->set_tau(0.25);
  const auto back = ParseSpecificationText(StoredText(spec));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->SerializeAsString(), spec.SerializeAsString());
  EXPECT_EQ(ParseSpecificationText("{").status().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(ParseSpecificationText("{\"a_newer_program\": \"says more\"}").ok());
}

}  // namespace
}  // namespace fulcrum::pipeline
