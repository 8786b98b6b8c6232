#include <gtest/gtest.h>

#include <memory>
#include <stop_token>
#include <string_view>
#include <vector>

#include "pipeline/round/tuning.h"
#include "tbb/global_control.h"
#include "tests/unit/pipeline/round/tuning_pools.h"

namespace fulcrum::pipeline {
namespace {

RoundSpec SpecOf(const std::string& strategy) {
  RoundSpec spec;
  spec.strategy = strategy;
  spec.batch = 5;
  spec.tune = true;
  return spec;
}

RoundInput InputOf(const std::vector<ClassIndex>& labels) {
  return {.class_count = 2, .labels = labels, .predictions = {}, .always_classify = true};
}

RowList PicksOf(const RoundResult& result) {
  RowList rows;
  for (const select::Pick& pick : result.selection.picks) rows.push_back(pick.row);
  return rows;
}

TEST(TunedRunner, KeepsItsSettingsAndStaysWarmUntilItTunesAgain) {
  const ingest::PoolFeatures features = Shells();
  const MemoryFeatureSource source(features);
  TunedRunner runner(SpecOf("uncertainty"));
  const auto twenty = FirstLabels(20), twenty_four = FirstLabels(24), forty = FirstLabels(40);
  const auto first = runner.Run(source, InputOf(twenty));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->tuning->labels, 20u);
  const auto second = runner.Run(source, InputOf(twenty_four));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->tuning->labels, 20u);
  EXPECT_TRUE(second->svm->warm);
  const auto third = runner.Run(source, InputOf(forty));
  ASSERT_TRUE(third.ok()) << third.status();
  EXPECT_EQ(third->tuning->labels, 40u);
}

TEST(TunedRunner, ContinuesInAnotherProcessWithTheSameBatch) {
  const ingest::PoolFeatures features = Shells();
  const MemoryFeatureSource source(features);
  const auto twenty = FirstLabels(20), twenty_four = FirstLabels(24);
  TunedRunner runner(SpecOf("dbalevs")), restarted(SpecOf("dbalevs")), forgetful(SpecOf("dbalevs"));
  const auto first = runner.Run(source, InputOf(twenty));
  ASSERT_TRUE(first.ok()) << first.status();
  restarted.Recall(first->tuning);
  const auto second = runner.Run(source, InputOf(twenty_four)), again = restarted.Run(source, InputOf(twenty_four));
  ASSERT_TRUE(second.ok() && again.ok()) << second.status() << again.status();
  EXPECT_EQ(PicksOf(*second), PicksOf(*again));
  EXPECT_EQ(again->tuning->labels, 20u);
  EXPECT_EQ(forgetful.Run(source, InputOf(twenty_four))->tuning->labels, 24u);
}

/// The batches of eight rounds with the default strategy, labels from the truth. A campaign that is killed after every
/// round has a new runner each time, which knows only what is on record.
std::vector<RowList> BatchesOfCampaign(std::size_t threads, bool killed_after_every_round) {
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
  const ingest::PoolFeatures features = Shells();
  const MemoryFeatureSource source(features);
  RoundSpec spec = SpecOf("adaptive-herding");
  spec.svm.tolerance = 1e-8;  // as campaigns have
  auto runner = std::make_unique<TunedRunner>(spec);
  std::vector<ClassIndex> labels = FirstLabels(4);
  std::vector<RowList> batches;
  for (int round = 0; round < 8; ++round) {
    const auto result = runner->Run(source, InputOf(labels));
    EXPECT_TRUE(result.ok()) << result.status();
    batches.push_back(PicksOf(*result));
    for (const RowIndex row : batches.back()) labels[row] = static_cast<ClassIndex>(row % 2);
    if (!killed_after_every_round) continue;
    runner = std::make_unique<TunedRunner>(spec);
    runner->Recall(result->tuning);
  }
  return batches;
}

TEST(TunedRunner, HasTheSameBatchesOnAnyNumberOfThreadsAndIfItIsKilledAfterEveryRound) {
  const std::vector<RowList> batches = BatchesOfCampaign(1, false);
  EXPECT_EQ(batches, BatchesOfCampaign(2, false));
  EXPECT_EQ(batches, BatchesOfCampaign(1, true));
  EXPECT_EQ(batches, BatchesOfCampaign(2, true));
}

TEST(TunedRunner, SelectsFromAPoolThatCannotBeNormalisedAsItsDefault) {
  const ingest::PoolFeatures texts = DenseTexts();
  TunedRunner runner(SpecOf("adaptive-herding"));
  const auto labels = FirstLabels(4);
  const auto round = runner.Run(WithoutTfidf(texts), InputOf(labels));
  ASSERT_TRUE(round.ok()) << round.status();
  EXPECT_EQ(round->tuning->chosen.normalize, "unit");
  EXPECT_EQ(PicksOf(*round).size(), 5u);
}

TEST(TunedRunner, ARoundThatFailsLeavesTheSettingsOfTheLastOne) {
  const ingest::PoolFeatures features = Shells();
  const MemoryFeatureSource source(features);
  const auto twenty = FirstLabels(20), forty = FirstLabels(40), twenty_two = FirstLabels(22);
  TunedRunner runner(SpecOf("uncertainty"));
  ASSERT_TRUE(runner.Run(source, InputOf(twenty)).ok());
  const auto refuse = [](const RoundResult&) { return absl::UnavailableError("disk is full"); };
  EXPECT_FALSE(runner.Run(source, InputOf(forty), {}, {}, refuse).ok());
  const auto next = runner.Run(source, InputOf(twenty_two));
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->tuning->labels, 20u);
}

TEST(TunedRunner, IsCancelledWhileItTunes) {
  const ingest::PoolFeatures features = Shells();
  const MemoryFeatureSource source(features);
  std::stop_source stop;
  const auto stop_at_tuning = [&](std::string_view stage, std::size_t, std::size_t) {
    if (stage == "tune") stop.request_stop();
  };
  TunedRunner runner(SpecOf("uncertainty"));
  const auto labels = FirstLabels(20);
  EXPECT_EQ(runner.Run(source, InputOf(labels), stop_at_tuning, stop.get_token()).status().code(),
            absl::StatusCode::kCancelled);
  EXPECT_TRUE(runner.Run(source, InputOf(labels)).ok());
}

}  // namespace
}  // namespace fulcrum::pipeline
