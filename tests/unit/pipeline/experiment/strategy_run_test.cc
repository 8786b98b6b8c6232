// The curves of an experiment against single rounds with cold trainings, and the table of inner products against
// features.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "pipeline/experiment/experiment.h"
#include "pipeline/experiment/task_data.h"
#include "stages/classify/svm_model.h"
#include "stages/classify/svm_trainer.h"
#include "stages/kernel/kernel_tiles.h"
#include "tests/support/matrices.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::size_t kRows = 240;

/// Two clouds; every third row is of class 1.
TaskData Clouds() {
  TaskData data;
  data.features = testing::RandomMatrix(kRows, 5, 3);
  for (std::size_t row = 0; row < kRows; ++row) {
    data.labels.push_back(row % 3 == 0 ? 1 : 0);
    if (row % 3 == 0) data.features(row, 0) += 1.6;
  }
  data.class_names = {"a", "b"};
  data.positive = 1;
  return data;
}

Split EvenAndOdd() {
  Split split;
  for (RowIndex row = 0; row < kRows; ++row) (row % 2 == 0 ? split.train : split.test).push_back(row);
  split.start = {0, 2, 4, 6};
  return split;
}

RoundSpec SpecOf(const std::string& strategy, std::size_t batch) {
  RoundSpec spec;
  spec.strategy = strategy;
  spec.batch = batch;
  spec.seed = 5;
  spec.svm.seed = 5;
  // Warm and cold trainings agree to the tolerance; the curves of this test must not see it.
  spec.svm.tolerance = 1e-9;
  return spec;
}

/// The halves, normalised by the tests' own code: the statistics of the training half for both.
struct Halves {
  Matrix<double> train;
  Matrix<double> test;
};

Halves ReferenceHalves(const TaskData& data, const Split& split) {
  const auto rows_of = [&](const RowList& rows) {
    Matrix<double> half(rows.size(), data.features.cols());
    for (std::size_t i = 0; i < rows.size(); ++i) std::ranges::copy(data.features.row(rows[i]), half.row(i).begin());
    return half;
  };
  Halves halves{rows_of(split.train), rows_of(split.test)};
  for (std::size_t col = 0; col < data.features.cols(); ++col) {
    double mean = 0, squares = 0;
    const auto count = static_cast<double>(split.train.size());
    for (std::size_t i = 0; i < split.train.size(); ++i) mean += halves.train(i, col) / count;
    for (std::size_t i = 0; i < split.train.size(); ++i) squares += std::pow(halves.train(i, col) - mean, 2);
    for (Matrix<double>* half : {&halves.train, &halves.test}) {
      for (std::size_t i = 0; i < half->rows(); ++i) {
        (*half)(i, col) = ((*half)(i, col) - mean) / std::sqrt(squares / (count - 1));
      }
    }
  }
  for (Matrix<double>* half : {&halves.train, &halves.test}) {
    for (std::size_t i = 0; i < half->rows(); ++i) {
      double squares = 0;
      for (const double value : half->row(i)) squares += value * value;
      for (double& value : half->row(i)) value /= std::sqrt(squares);
    }
  }
  return halves;
}

/// The curve by a RoundRunner, and a cold training on plain features and a test from scratch each round.
std::vector<CurvePoint> ReferenceCurve(const RoundSpec& spec, std::size_t rounds, const TaskData& data,
                                       const Split& split, const kernel::Features& pool) {
  Halves halves = ReferenceHalves(data, split);
  const kernel::DenseFeatures train(std::move(halves.train)), test(std::move(halves.test));
  std::vector<ClassIndex> labels(train.rows(), kUnlabeled), truth;
  for (const RowIndex row : split.test) truth.push_back(data.labels[row]);
  const auto label = [&](std::size_t i) { labels[i] = data.labels[split.train[i]]; };
  for (const RowIndex row : split.start) {
    label(static_cast<std::size_t>(std::ranges::lower_bound(split.train, row) - split.train.begin()));
  }
  RoundRunner runner(spec, pool);
  std::vector<CurvePoint> points;
  std::size_t queries = 0, positives = 0;
  for (std::size_t round = 0; round <= rounds; ++round) {
    classify::SvmTrainer trainer(spec.svm, train);
    const auto model = trainer.Train(labels, 2);
    const auto predicted = classify::VoteClasses(*model, classify::DecisionValues(*model, train, test).view());
    points.push_back({.round = round,
                      .labels = 4 + queries,
                      .accuracy = Accuracy(predicted, truth),
                      .f1 = F1Score(predicted, truth, data.positive),
                      .queried_positive_share = static_cast<double>(positives) / static_cast<double>(queries)});
    const auto result = runner.Run({.class_count = 2, .labels = labels, .predictions = {}, .queries_so_far = queries});
    if (!result.ok()) break;
    for (const select::Pick& pick : result->selection.picks) {
      label(pick.row);
      ++queries;
      positives += labels[pick.row] == data.positive ? 1 : 0;
    }
  }
  return points;
}

class StrategyRunTest : public ::testing::TestWithParam<const char*> {};

TEST_P(StrategyRunTest, GivesTheCurveOfSingleRounds) {
  const TaskData data = Clouds();
  const Split split = EvenAndOdd();
  const auto run = RunData::Make(data, split);
  ASSERT_TRUE(run.ok()) << run.status();
  for (const std::size_t batch : {1, 4}) {
    const RoundSpec spec = SpecOf(GetParam(), batch);
    const auto curve = RunStrategy(spec, 12, *run);
    ASSERT_TRUE(curve.ok()) << curve.status();
    const std::vector<CurvePoint> expected = ReferenceCurve(spec, 12, data, split, *run->Fixed("")->pool);
    ASSERT_EQ(curve->points.size(), expected.size());
    // The classifiers that nearopt samples amplify the last bit of an inner product, which the table
    // and the features may round differently: only its beginning is the same everywhere.
    const std::size_t compared = std::string_view(GetParam()) == "nearopt" ? 2 : expected.size();
    for (std::size_t round = 0; round < compared; ++round) {
      EXPECT_EQ(curve->points[round].labels, expected[round].labels);
      EXPECT_EQ(curve->points[round].accuracy, expected[round].accuracy) << "batch " << batch << ", round " << round;
      EXPECT_EQ(curve->points[round].f1, expected[round].f1);
      if (round > 0) {
        EXPECT_EQ(curve->points[round].queried_positive_share, expected[round].queried_positive_share);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllStrategies, StrategyRunTest,
                         ::testing::Values("alevs", "dbalevs", "hybrid", "adaptive-herding", "badge", "committee",
                                           "k-center", "typical", "entropy", "uncertainty-herding", "herding",
                                           "uncertainty", "least-confident", "most-confident", "quire", "ted",
                                           "lev-on-all", "top-lev", "nearopt", "random"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(RunData, TheTableHasTheKernelOfTheFeatures) {
  const TaskData data = Clouds();
  const Split split = EvenAndOdd();
  const auto table = RunData::Make(data, split);
  const auto plain = RunData::Make(data, split, "zscore,unit", /*most_table_bytes=*/0);
  ASSERT_TRUE(table.ok() && plain.ok());
  const Halves halves = ReferenceHalves(data, split);
  const kernel::KernelFunction rbf;
  const Matrix<double> expected = testing::NaiveKernel(rbf, halves.test.view(), halves.train.view());
  const RowList test{120, 130, 239}, train{3, 0, 119};
  for (const RunData* run : {&*table, &*plain}) {
    Matrix<double> block(3, 3);
    kernel::ComputeKernelBlock(rbf, *run->Fixed("")->predicted, test, train, block.view());
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j < 3; ++j) EXPECT_NEAR(block(i, j), expected(test[i] - 120, train[j]), 1e-12);
    }
  }
}

TEST(StrategyRun, EndsWhereThePoolDoes) {
  const auto run = RunData::Make(Clouds(), EvenAndOdd());
  const auto curve = RunStrategy(SpecOf("random", 50), 10, *run);
  ASSERT_TRUE(curve.ok()) << curve.status();
  ASSERT_EQ(curve->points.size(), 4u);
  EXPECT_EQ(curve->points.back().labels, 120u);
  const auto full = RunFullData(SpecOf("random", 1), *run);
  ASSERT_TRUE(full.ok());
  EXPECT_EQ(full->points[0].accuracy, curve->points.back().accuracy) << "all labels are all labels";
}

TEST(RunStream, TakesItsShareAndEndsWithTheStream) {
  const auto run = RunData::Make(Clouds(), EvenAndOdd(), "");
  ASSERT_TRUE(run.ok()) << run.status();
  RoundSpec spec = SpecOf("random", 4);
  spec.tune = true;
  // Of 120 rows 4 are labeled and 11 are known before the stream begins; a fifth of the other 105 are 21.
  const auto curve = RunStream(spec, 30, *run, 0.2), again = RunStream(spec, 30, *run, 0.2);
  ASSERT_TRUE(curve.ok() && again.ok()) << curve.status() << again.status();
  EXPECT_NEAR(static_cast<double>(curve->points.back().labels), 4 + 21, 1);
  ASSERT_EQ(curve->points.size(), again->points.size());
  for (std::size_t round = 0; round < curve->points.size(); ++round) {
    EXPECT_EQ(curve->points[round].accuracy, again->points[round].accuracy);
    EXPECT_EQ(curve->points[round].labels, std::min<std::size_t>(4 + 4 * round, curve->points.back().labels));
  }
  const auto short_one = RunStream(spec, 2, *run, 0.2);
  ASSERT_TRUE(short_one.ok());
  EXPECT_EQ(short_one->points.size(), 3U);
  EXPECT_EQ(short_one->points.back().labels, 12U);
}

TEST(RunStream, AnnotatorsVoteOnEveryRowThatItTakes) {
  const auto run = RunData::Make(Clouds(), EvenAndOdd(), "");
  ASSERT_TRUE(run.ok()) << run.status();
  RoundSpec spec = SpecOf("random", 6);
  spec.tune = true;
  const std::vector<SimulatedAnnotator> annotators(3, {.accuracy = {0.9}, .seconds = 20, .cost = 2});
  // Two votes each, so three of six rows wait for the next round.
  const VotingRule rule{.dawid_skene = true, .overlap = 2};
  const auto curve = RunStream(spec, 30, *run, 0.2, annotators, rule);
  const auto again = RunStream(spec, 30, *run, 0.2, annotators, rule);
  ASSERT_TRUE(curve.ok() && again.ok()) << curve.status() << again.status();
  const CurvePoint& last = curve->points.back();
  EXPECT_NEAR(static_cast<double>(last.labels), 4 + 2 * 21, 3) << "a fifth of the stream, twice";
  EXPECT_EQ(last.cost, 2 * static_cast<double>(last.labels - 4));
  EXPECT_GT(last.label_accuracy, 0.7);
  EXPECT_GT(last.seconds, 20.0 * 21 * 2 / 3 / 2);
  for (std::size_t round = 1; round < curve->points.size(); ++round) {
    EXPECT_GT(curve->points[round].seconds, curve->points[round - 1].seconds);
    EXPECT_EQ(curve->points[round].accuracy, again->points[round].accuracy);
  }
}

TEST(RunStream, NeedsATunedClassifier) {
  const auto run = RunData::Make(Clouds(), EvenAndOdd());
  EXPECT_EQ(RunStream(SpecOf("random", 4), 3, *run, 0.2).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(RunStrategy, NoRoundSpendsMoreThanItsBudgetAndWeighingCostsBuysMoreLabels) {
  const TaskData data = Clouds();
  const Split split = EvenAndOdd();
  const auto run = RunData::Make(data, split);
  ASSERT_TRUE(run.ok()) << run.status();
  for (const char* const strategy : {"adaptive-herding", "dbalevs", "hybrid"}) {
    SimulatedCosts costs{.low = 1, .high = 10, .budget = 12};
    const auto weighing = RunStrategy(SpecOf(strategy, 20), 6, *run, {}, {}, costs);
    costs.weigh = false;
    const auto blind = RunStrategy(SpecOf(strategy, 20), 6, *run, {}, {}, costs);
    ASSERT_TRUE(weighing.ok() && blind.ok()) << weighing.status() << blind.status();
    for (const Curve* const curve : {&*weighing, &*blind}) {
      ASSERT_EQ(curve->points.size(), 7u);
      for (const CurvePoint& point : curve->points) {
        EXPECT_LE(point.cost, 12 * static_cast<double>(point.round) * (1 + 1e-9));
      }
      EXPECT_GT(curve->points.back().cost, 50) << "most of the money is spent";
    }
    EXPECT_GT(weighing->points.back().labels, blind->points.back().labels + 8) << strategy;
  }
}

TEST(RunStrategy, AnnotatorsVoteUntilTheVotesOfTheRoundAreSpent) {
  const TaskData data = Clouds();
  const Split split = EvenAndOdd();
  const auto run = RunData::Make(data, split);
  ASSERT_TRUE(run.ok()) << run.status();
  const std::vector<SimulatedAnnotator> annotators = {{.accuracy = {0.95}},
                                                      {.accuracy = {0.9, 0.6}},
                                                      {.accuracy = {0.7}, .skip = 0.3},
                                                      {.spammer = true},
                                                      {.accuracy = {0.85}}};
  const VotingRule rule{.dawid_skene = true, .overlap = 0};
  const RoundSpec spec = SpecOf("adaptive-herding", 25);
  const auto curve = RunStrategy(spec, 5, *run, annotators, rule);
  const auto again = RunStrategy(spec, 5, *run, annotators, rule);
  ASSERT_TRUE(curve.ok() && again.ok()) << curve.status() << again.status();
  ASSERT_EQ(curve->points.size(), 6u);
  for (std::size_t round = 0; round <= 5; ++round) {
    const CurvePoint& point = curve->points[round];
    EXPECT_EQ(point.labels, 4 + 25 * round) << "votes";
    EXPECT_EQ(point.accuracy, again->points[round].accuracy);
    if (round == 0) continue;
    EXPECT_GT(point.label_accuracy, 0.7);
    EXPECT_EQ(point.label_accuracy, again->points[round].label_accuracy);
  }
  const auto wrong = RunStrategy(spec, 5, *run, std::vector<SimulatedAnnotator>{{.accuracy = {0.9, 0.9, 0.9}}}, rule);
  EXPECT_EQ(wrong.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(RunStrategy, ATunedClassifierHasProbabilitiesAndIsTheSameEveryTime) {
  const TaskData data = Clouds();
  const Split split = EvenAndOdd();
  const auto run = RunData::Make(data, split, "");
  ASSERT_TRUE(run.ok()) << run.status();
  RoundSpec spec = SpecOf("random", 4);
  spec.tune = true;
  const auto curve = RunStrategy(spec, 6, *run), again = RunStrategy(spec, 6, *run);
  ASSERT_TRUE(curve.ok() && again.ok()) << curve.status() << again.status();
  ASSERT_EQ(curve->points.size(), 7u);
  for (std::size_t round = 0; round <= 6; ++round) {
    EXPECT_EQ(curve->points[round].accuracy, again->points[round].accuracy);
    EXPECT_GE(curve->points[round].calibration_error, 0);
    EXPECT_LE(curve->points[round].calibration_error, 1);
  }
  const auto full = RunFullData(spec, *run);
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_GT(full->points[0].accuracy, 0.7);
}

}  // namespace
}  // namespace fulcrum::pipeline
