// Wins, ties and losses, regret and the tables, on curves made by hand.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "pipeline/experiment/curves.h"
#include "pipeline/experiment/experiment.h"

namespace fulcrum::pipeline {
namespace {

using ::testing::HasSubstr;

Curve MakeCurve(const std::string& strategy, std::size_t run, const std::vector<double>& accuracies) {
  Curve curve{.task = "t", .strategy = strategy, .run = run, .points = {}};
  for (std::size_t round = 0; round < accuracies.size(); ++round) {
    curve.points.push_back({.round = round, .labels = 4 + round, .accuracy = accuracies[round], .f1 = 0.5});
  }
  return curve;
}

/// Against "b", strategy "a" wins round 1, ties round 2 and loses rounds 3 and 4, over four runs.
CurveSet FourRuns() {
  std::vector<Curve> curves;
  for (std::size_t run = 0; run < 4; ++run) {
    const double noise = 0.01 * static_cast<double>(run);
    const double coin = run % 2 == 0 ? 0.02 : -0.02;
    curves.push_back(MakeCurve("a", run, {0.5, 0.8 + noise, 0.7 + coin, 0.6, 0.6 + noise}));
    curves.push_back(MakeCurve("b", run, {0.5, 0.7, 0.7, 0.7 + noise, 0.7}));
  }
  curves.push_back({.task = "t", .strategy = kFullData, .run = 0, .points = {{.accuracy = 0.9}}});
  return CurveSet(std::move(curves));
}

ExperimentSpec SpecWithPaper(const WtlCounts& first, const WtlCounts& second) {
  ExperimentSpec spec;
  spec.comparison = {.subject = "a", .spans = {{1, 2}, {3, 100}}, .notes = {{"b", "b is different"}}};
  spec.tasks.push_back({.name = "t", .paper = {{"b", {first, second}}}});
  return spec;
}

TEST(WinTieLoss, CountsRoundsBySpanAndCutsTheSpanAtTheLastRound) {
  const auto cells = CompareWithSubject(SpecWithPaper({2, 0, 0}, {0, 0, 2}), FourRuns());
  ASSERT_EQ(cells.size(), 2u);
  EXPECT_EQ(cells[0].counts.win, 1u);
  EXPECT_EQ(cells[0].counts.tie, 1u);
  EXPECT_EQ(cells[0].counts.loss, 0u);
  EXPECT_EQ(cells[1].counts.loss, 2u);
  EXPECT_EQ(cells[1].span.last, 4u);
  EXPECT_EQ(cells[0].agreement(), Agreement::kSame);
  EXPECT_EQ(cells[1].agreement(), Agreement::kSame);
}

TEST(WinTieLoss, SaysWhereThePaperLeansTheOtherWayAndWhy) {
  const ExperimentSpec spec = SpecWithPaper({0, 1, 1}, {1, 0, 1});
  const auto cells = CompareWithSubject(spec, FourRuns());
  EXPECT_EQ(cells[0].agreement(), Agreement::kOpposite);
  EXPECT_EQ(cells[1].agreement(), Agreement::kUndecided);
  const std::string table = WtlTable(spec, cells);
  EXPECT_THAT(table, HasSubstr("t,a,b,1,2,1,1,0,5.750,1.656,0,1,1,opposite,\"b is different\"\n"));
  EXPECT_THAT(table, HasSubstr("t,a,b,3,4,0,0,2,-10.000,0.000,1,0,1,undecided,\"b is different\"\n"));
}

TEST(WinTieLoss, TellsByHowMuchBothAreAheadOfEachOtherAndOfRandom) {
  std::vector<Curve> curves;
  for (std::size_t run = 0; run < 2; ++run) {
    curves.push_back(MakeCurve("a", run, {0.1, 0.6, 0.8}));
    curves.push_back(MakeCurve("b", run, {0.9, 0.7, 0.9}));
    curves.push_back(MakeCurve("random", run, {0.5, 0.4, 0.6}));
  }
  const auto cells = CompareWithSubject(SpecWithPaper({}, {}), CurveSet(std::move(curves)));
  ASSERT_EQ(cells.size(), 2u);
  EXPECT_EQ(DescribeMeans("a", cells[0]), "a is 10.0 ± 0.0 points below b; a is 20.0 above random, b 30.0 above it");
  EXPECT_EQ(DescribeMeans("a", cells[1]), "a is 20.0 ± 0.0 points above random");
}

TEST(WinTieLoss, ComparesOnlyRunsThatBothHave) {
  std::vector<Curve> curves;
  for (std::size_t run : {0, 1, 2}) curves.push_back(MakeCurve("a", run, {0.5, 0.9}));
  for (std::size_t run : {1, 2, 3}) curves.push_back(MakeCurve("b", run, {0.5, run == 3 ? 1.0 : 0.8}));
  const auto cells = CompareWithSubject(SpecWithPaper({}, {}), CurveSet(std::move(curves)));
  ASSERT_EQ(cells.size(), 1u);
  EXPECT_EQ(cells[0].counts.win, 1u);
}

TEST(Regret, IsTheAreaMissingToTheBest) {
  const CurveSet curves({MakeCurve("a", 0, {0.5, 0.7, 0.9}), MakeCurve("a", 1, {0.5, 0.5, 0.5}),
                         MakeCurve("b", 0, {0.8, 0.8, 0.8}), MakeCurve("b", 1, {0.6, 0.8, 1.0})});
  const auto tasks = ComputeRegret(curves, Metric::kAccuracy);
  ASSERT_EQ(tasks.size(), 1u);
  EXPECT_NEAR(tasks[0].entries[0].area, (0.7 + 0.5) / 2, 1e-12);
  EXPECT_NEAR(tasks[0].entries[1].area, 0.8, 1e-12);
  EXPECT_NEAR(tasks[0].entries[0].regret, 0.2, 1e-12);
  EXPECT_NEAR(tasks[0].entries[0].share, 0.25, 1e-12);
  EXPECT_EQ(tasks[0].entries[1].regret, 0);
  const auto summaries = SummarizeRegret(tasks);
  EXPECT_EQ(summaries[0].strategy, "b");
  EXPECT_NEAR(summaries[1].mean_share, 0.25, 1e-12);
}

TEST(Regret, CountsTheLabelsThatGiveNearlyAsMuchAsAll) {
  // 0.855 is enough. The mean curve of "a" is there at the second round, that of random at its last one.
  std::vector<Curve> curves = {
      MakeCurve("a", 0, {0.5, 0.7, 0.90, 0.90, 0.90}), MakeCurve("a", 1, {0.5, 0.7, 0.82, 0.90, 0.90}),
      MakeCurve("b", 0, {0.5, 0.6, 0.70, 0.80, 0.85}), MakeCurve("random", 0, {0.5, 0.6, 0.70, 0.80, 0.86})};
  curves.push_back({.task = "t", .strategy = kFullData, .run = 0, .points = {{.accuracy = 0.9}}});
  const auto tasks = ComputeRegret(CurveSet(curves), Metric::kAccuracy);
  EXPECT_EQ(tasks[0].entries[0].labels_needed, 6);
  EXPECT_EQ(tasks[0].entries[1].labels_needed, std::nullopt);
  EXPECT_EQ(tasks[0].entries[2].labels_needed, 8);
  EXPECT_THAT(RegretTable(tasks), HasSubstr(",6.0\n"));
  const auto needs = SummarizeLabels(tasks);
  ASSERT_EQ(needs.size(), 3u);
  EXPECT_EQ(needs[0].reached, 1u);
  EXPECT_NEAR(*needs[0].median_of_random, 6.0 / 8, 1e-12);
  EXPECT_EQ(needs[1].reached, 0u);
  EXPECT_EQ(*needs[1].median_of_random, std::numeric_limits<double>::infinity());
  EXPECT_EQ(*needs[2].median_of_random, 1);

  curves[3].points[4].accuracy = 0.85;  // random does not get there either: it needs at least its 8 labels
  const auto without = SummarizeLabels(ComputeRegret(CurveSet(curves), Metric::kAccuracy));
  EXPECT_NEAR(*without[0].median_of_random, 6.0 / 8, 1e-12);
  EXPECT_EQ(without[1].median_of_random, std::nullopt) << "neither of the two gets there";
  curves.pop_back();
  EXPECT_EQ(ComputeRegret(CurveSet(curves), Metric::kAccuracy)[0].entries[0].labels_needed, std::nullopt);
}

TEST(CurvesTable, HasALineAPointAndLeavesTheUnknownEmpty) {
  Curve curve = MakeCurve("a", 2, {0.5, 0.625});
  curve.points[0].queried_positive_share = std::numeric_limits<double>::quiet_NaN();
  curve.points[1].queried_positive_share = 1;
  const std::string table = CurvesTable(CurveSet({curve}));
  EXPECT_THAT(table, HasSubstr("task,strategy,run,round,labels,accuracy,f1,positive_share,train_seconds"));
  EXPECT_THAT(
      table,
      HasSubstr(
          "select_seconds,macro_f1,calibration_error,label_accuracy,paused_spammers,paused_others,cost,seconds\n"));
  EXPECT_THAT(table, HasSubstr("\nt,a,2,0,4,0.5,0.5,,0.000000,0.000000,0.000000,0,,,0,0,0,0\n"));
  EXPECT_THAT(table, HasSubstr("\nt,a,2,1,5,0.625,0.5,1,"));
}

}  // namespace
}  // namespace fulcrum::pipeline
