#include "pipeline/round/round.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "gtest/gtest.h"
#include "stages/classify/svm_model.h"
#include "stages/core/parallel.h"
#include "stages/core/random.h"
#include "stages/linalg/top_eigen.h"
#include "tbb/global_control.h"
#include "tests/support/matrices.h"
#include "tests/unit/pipeline/round/round_fixture.h"

namespace fulcrum::pipeline {
namespace {

TEST_F(RoundTest, ScoresEqualAFullDecompositionOfEachClassGroup) {
  RoundRunner runner(Spec("dbalevs", 10), features_);
  const auto result = runner.Run(Input());
  ASSERT_TRUE(result.ok()) << result.status();
  for (ClassIndex class_index : {0, 1}) {
    std::vector<std::size_t> group;
    for (std::size_t row = 0; row < kRows; ++row) {
      if (result->predicted[row] == class_index) group.push_back(row);
    }
    Matrix<double> members(group.size(), kDims);
    for (std::size_t i = 0; i < group.size(); ++i)
      std::copy_n(points_.row(group[i]).data(), kDims, members.row(i).data());
    const auto top = linalg::SolveTopEigenDense(
        testing::NaiveKernel(Spec("dbalevs", 1).leverage_kernel, members.view(), members.view()).view(), {.tau = 0.5});
    ASSERT_TRUE(top.ok());
    EXPECT_EQ(result->classes[static_cast<std::size_t>(class_index)].rank, top->rank);
    EXPECT_EQ(result->classes[static_cast<std::size_t>(class_index)].rows, group.size());
    for (std::size_t i = 0; i < group.size(); ++i) {
      double score = 0;
      for (std::size_t j = 0; j < top->rank; ++j) score += top->vectors(j, i) * top->vectors(j, i);
      ASSERT_NEAR(result->leverage[group[i]], score, 1e-8);
    }
  }
}

TEST_F(RoundTest, LabeledRowsKeepTheirClassAndAreNeverPicked) {
  RoundRunner runner(Spec("dbalevs", 30), features_);
  const auto result = runner.Run(Input());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->selection.picks.size(), 30u);
  for (RowIndex row : PickedRows(*result)) EXPECT_EQ(labels_[row], kUnlabeled);
  for (std::size_t row = 0; row < 20; ++row) EXPECT_EQ(result->predicted[row], labels_[row]);
}

TEST_F(RoundTest, EveryStrategyGivesTheSameBatchOnAnyNumberOfThreads) {
  for (const char* strategy : {"alevs", "dbalevs", "uncertainty", "random", "lev-on-all", "quire", "hybrid"}) {
    RoundRunner runner(Spec(strategy, 7), features_);
    const auto with_all = runner.Run(Input());
    const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
    RoundRunner other(Spec(strategy, 7), features_);
    const auto with_one = other.Run(Input());
    ASSERT_TRUE(with_all.ok()) << strategy << ": " << with_all.status();
    EXPECT_EQ(PickedRows(*with_all), PickedRows(*with_one)) << strategy;
    EXPECT_EQ(PickedRows(*with_all).size(), 7u) << strategy;
  }
}

TEST_F(RoundTest, AWarmRoundGivesTheColdRoundsBatchAndSaysSo) {
  RoundRunner warm(Spec("dbalevs", 10), features_);
  ASSERT_TRUE(warm.Run(Input()).ok());
  LabelRows(20, 10);
  const auto second = warm.Run(Input());
  RoundRunner cold(Spec("dbalevs", 10), features_);
  const auto fresh = cold.Run(Input());
  ASSERT_TRUE(second.ok() && fresh.ok());
  EXPECT_EQ(PickedRows(*second), PickedRows(*fresh));
  EXPECT_TRUE(second->svm->warm);
  EXPECT_FALSE(fresh->svm->warm);
  for (std::size_t c = 0; c < 2; ++c) {
    EXPECT_TRUE(second->classes[c].warm);
    EXPECT_FALSE(fresh->classes[c].warm);
    EXPECT_LT(second->classes[c].products, fresh->classes[c].products);
  }
}

TEST_F(RoundTest, WithoutAKernelMatrixTheScoresAndTheBatchAreTheSame) {
  RoundSpec spec = Spec("dbalevs", 10);
  RoundRunner in_memory(spec, features_);
  spec.engine = "tiled";
  RoundRunner tiled(spec, features_);
  for (const bool second_round : {false, true}) {
    const auto expected = in_memory.Run(Input()), result = tiled.Run(Input());
    ASSERT_TRUE(expected.ok() && result.ok()) << result.status();
    EXPECT_EQ(PickedRows(*result), PickedRows(*expected));
    for (std::size_t row = 0; row < kRows; ++row) ASSERT_NEAR(result->leverage[row], expected->leverage[row], 1e-8);
    for (const ClassReport& report : result->classes) {
      EXPECT_EQ(report.engine, "tiled");
      EXPECT_EQ(report.warm, second_round);
    }
    LabelRows(20, 10);
  }
}

TEST_F(RoundTest, ScoresFromLandmarksAreRefinedUnlessTheyAreNotToBe) {
  RoundSpec spec = Spec("dbalevs", 10);
  RoundRunner exact(spec, features_);
  const auto expected = exact.Run(Input());
  ASSERT_TRUE(expected.ok()) << expected.status();
  spec.engine = "landmark";
  spec.landmarks = 60;
  std::map<bool, double> largest_error;
  for (const bool refine : {false, true}) {
    spec.refine_landmarks = refine;
    RoundRunner runner(spec, features_);
    const auto result = runner.Run(Input());
    ASSERT_TRUE(result.ok()) << result.status();
    for (std::size_t row = 0; row < kRows; ++row) {
      const double error = std::abs(result->leverage[row] - expected->leverage[row]);
      largest_error[refine] = std::max(largest_error[refine], error);
    }
    for (const ClassReport& report : result->classes) {
      EXPECT_EQ(report.reason.find("refined") != std::string::npos, refine) << report.reason;
    }
  }
  EXPECT_LT(5 * largest_error[true], largest_error[false]);
}

TEST_F(RoundTest, ARunnerThatRecallsLandmarksGoesOnAsIfItHadAlwaysBeenThere) {
  RoundSpec spec = Spec("dbalevs", 10);
  spec.engine = "landmark";
  spec.landmarks = 60;
  spec.refine_landmarks = false;  // so that bounds count
  RoundRunner always(spec, features_);
  ASSERT_TRUE(always.Run(Input()).ok());
  LabelRows(20, 20);
  ASSERT_TRUE(always.Run(Input()).ok());
  LabelRows(40, 20);
  RoundRunner restarted(spec, features_), forgetful(spec, features_);
  restarted.RecallLandmarks(always.Landmarks());
  const auto expected = always.Run(Input()), again = restarted.Run(Input()), anew = forgetful.Run(Input());
  ASSERT_TRUE(expected.ok() && again.ok() && anew.ok());
  EXPECT_EQ(PickedRows(*again), PickedRows(*expected));
  EXPECT_EQ(restarted.Landmarks(), always.Landmarks());
  EXPECT_NE(forgetful.Landmarks(), always.Landmarks()) << "nothing would have to be recalled";
  for (const ClassReport& report : expected->classes) {
    EXPECT_NE(report.reason.find("that could matter scored again"), std::string::npos) << report.reason;
    EXPECT_NE(report.reason.find("labeled known before"), std::string::npos) << report.reason;
  }
}

TEST_F(RoundTest, TheResultIsCommittedAtTheEndAndAFailureToDoSoIsTheRounds) {
  RoundRunner runner(Spec("dbalevs", 10), features_);
  RowList committed;
  const auto commit = [&](const RoundResult& result) {
    EXPECT_NE(result.model, nullptr);
    EXPECT_EQ(result.seconds.back().stage, "select");
    committed = PickedRows(result);
    return absl::OkStatus();
  };
  const auto result = runner.Run(Input(), {}, {}, commit);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(committed, PickedRows(*result));
  EXPECT_EQ(result->seconds.back().stage, "commit");

  const auto full = [](const RoundResult&) { return absl::ResourceExhaustedError("no space left"); };
  EXPECT_EQ(runner.Run(Input(), {}, {}, full).status(), absl::ResourceExhaustedError("commit: no space left"));
  const auto after = runner.Run(Input());
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(PickedRows(*after), committed);
}

TEST_F(RoundTest, GivenPredictionsTakeThePlaceOfTheClassifier) {
  std::vector<ClassIndex> predictions(kRows);
  for (std::size_t row = 0; row < kRows; ++row) predictions[row] = row < 100 ? 0 : 1;
  RoundInput input = Input();
  input.predictions = predictions;
  RoundRunner runner(Spec("alevs", 5), features_);
  const auto result = runner.Run(input);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->svm.has_value());
  EXPECT_EQ(result->predicted[50], 0);
  EXPECT_EQ(result->predicted[450], 1);
  EXPECT_EQ(result->predicted[1], 1) << "a label beats a prediction";

  RoundRunner uncertain(Spec("uncertainty", 5), features_);
  EXPECT_EQ(uncertain.Run(input).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(RoundTest, AnEmptyClassGroupGivesItsShareToTheOther) {
  std::vector<ClassIndex> predictions(kRows, 1);
  std::fill(labels_.begin(), labels_.end(), kUnlabeled);
  labels_[1] = 1;
  RoundInput input = Input();
  input.predictions = predictions;
  RoundRunner runner(Spec("dbalevs", 6), features_);
  const auto result = runner.Run(input);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->selection.picks.size(), 6u);
  EXPECT_EQ(result->classes[0].rows, 0u);
}

TEST_F(RoundTest, GivesWhatIsLeftIfTheBatchIsLarger) {
  LabelRows(0, kRows - 3);
  RoundRunner runner(Spec("dbalevs", 10), features_);
  const auto result = runner.Run(Input());
  ASSERT_TRUE(result.ok()) << result.status();
  const RowList rows = PickedRows(*result);
  EXPECT_EQ(std::set<RowIndex>(rows.begin(), rows.end()), (std::set<RowIndex>{497, 498, 499}));
}

TEST_F(RoundTest, AClassWithTheSameRowsKeepsItsScores) {
  RoundRunner runner(Spec("lev-on-all", 5), features_);
  const auto first = runner.Run(Input());
  LabelRows(20, 10);
  const auto second = runner.Run(Input());
  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  EXPECT_EQ(second->leverage, first->leverage);
  ASSERT_EQ(second->classes.size(), 1u);
  EXPECT_EQ(second->classes[0].products, 0u);
  EXPECT_EQ(second->classes[0].rank, first->classes[0].rank);
  EXPECT_EQ(second->classes[0].labeled, 30u);
  EXPECT_TRUE(second->classes[0].warm);
}

TEST_F(RoundTest, ARoundWithoutSelectionEndsWithPredictions) {
  RoundRunner runner(Spec("dbalevs", 10), features_);
  RoundInput input = Input();
  input.always_classify = true;
  const auto selected = runner.Run(input);
  input.select = false;
  const auto predicted = runner.Run(input);
  ASSERT_TRUE(selected.ok() && predicted.ok()) << selected.status() << predicted.status();
  EXPECT_EQ(predicted->predicted, selected->predicted);
  EXPECT_TRUE(predicted->selection.picks.empty());
  EXPECT_TRUE(predicted->classes.empty());
  EXPECT_NE(predicted->model, nullptr);
  LabelRows(0, kRows);
  input = Input();
  input.always_classify = true;
  input.select = false;
  EXPECT_TRUE(runner.Run(input).ok()) << "there is a model of all labels";
}

TEST_F(RoundTest, NothingLeftIsOutOfRange) {
  LabelRows(0, kRows);
  RoundRunner runner(Spec("dbalevs", 10), features_);
  EXPECT_EQ(runner.Run(Input()).status().code(), absl::StatusCode::kOutOfRange);
}

TEST_F(RoundTest, AnErrorNamesItsStageAndTheNextRoundStillRuns) {
  RoundSpec spec = Spec("dbalevs", 10);
  spec.leverage_kernel = {.type = kernel::KernelType::kLinear};
  RoundRunner runner(spec, features_);
  const auto result = runner.Run(Input());
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().message().substr(0, 7), "select:") << result.status();

  std::fill(labels_.begin(), labels_.end(), kUnlabeled);
  labels_[0] = 0;
  RoundRunner other(Spec("dbalevs", 10), features_);
  // Labels of one class are not enough for a classifier: the round covers the pool instead.
  EXPECT_TRUE(other.Run(Input()).ok());
  LabelRows(0, 10);
  EXPECT_TRUE(other.Run(Input()).ok());
}

TEST_F(RoundTest, LooksForClassesByChanceIfCoveringThePoolFindsOnlyOne) {
  std::fill(labels_.begin(), labels_.end(), kUnlabeled);
  const auto picks_of = [&](const char* strategy) {
    const auto result = RoundRunner(Spec(strategy, 6), features_).Run(Input());
    EXPECT_TRUE(result.ok()) << result.status();
    return PickedRows(*result);
  };
  for (std::size_t row = 0; row < 14; row += 2) labels_[row] = 0;
  EXPECT_EQ(picks_of("margin"), picks_of("herding"));
  labels_[14] = 0;  // the eighth
  EXPECT_EQ(picks_of("margin"), picks_of("random"));
  EXPECT_EQ(picks_of("adaptive-herding"), picks_of("random"));
  // A single label of another class may be an error, so the default goes on looking with half of a batch.
  labels_[1] = 1;
  RowList picks[2];
  for (std::size_t i = 0; i < 2; ++i) {
    RoundSpec spec = Spec("adaptive-herding", 6);
    spec.seed = i + 1;
    const auto result = RoundRunner(spec, features_).Run(Input());
    ASSERT_TRUE(result.ok()) << result.status();
    picks[i] = PickedRows(*result);
    ASSERT_EQ(picks[i].size(), 6u);
    EXPECT_EQ(std::set(picks[i].begin(), picks[i].end()).size(), 6u);
    for (const RowIndex row : picks[i]) EXPECT_EQ(labels_[row], kUnlabeled);
  }
  EXPECT_TRUE(std::equal(picks[0].begin(), picks[0].begin() + 3, picks[1].begin())) << "these are the strategy's";
  EXPECT_FALSE(std::equal(picks[0].begin() + 3, picks[0].end(), picks[1].begin() + 3)) << "these are chance";
}

TEST_F(RoundTest, AStopBetweenStagesCancelsTheRound) {
  std::stop_source stop;
  RoundRunner runner(Spec("dbalevs", 10), features_);
  const auto stop_at_partition = [&](std::string_view stage, std::size_t, std::size_t) {
    if (stage == "partition") stop.request_stop();
  };
  EXPECT_EQ(runner.Run(Input(), stop_at_partition, stop.get_token()).status().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(runner.Run(Input()).ok());
}

TEST(ValidateRoundSpec, NamesWhatIsOutOfRange) {
  const auto message = [](auto change) {
    RoundSpec spec;
    change(spec);
    return std::string(ValidateRoundSpec(spec).message());
  };
  EXPECT_EQ(message([](RoundSpec&) {}), "");
  EXPECT_NE(message([](RoundSpec& spec) { spec.tau = 0; }).find("tau"), std::string::npos);
  EXPECT_NE(message([](RoundSpec& spec) { spec.alpha = 1.5; }).find("alpha"), std::string::npos);
  EXPECT_NE(message([](RoundSpec& spec) { spec.batch = 0; }).find("batch"), std::string::npos);
  EXPECT_NE(message([](RoundSpec& spec) { spec.leverage_kernel.sigma = 0; }).find("sigma"), std::string::npos);
  EXPECT_NE(message([](RoundSpec& spec) { spec.engine = "fast"; }).find("krylov"), std::string::npos);
  EXPECT_NE(message([](RoundSpec& spec) { spec.strategy = "best"; }).find("dbalevs"), std::string::npos);
}

}  // namespace
}  // namespace fulcrum::pipeline
