#include <gtest/gtest.h>

#include "stages/classify/classifier.h"
#include "stages/classify/svm_model.h"
#include "stages/classify/svm_trainer.h"
#include "tests/unit/stages/classify/labeled_clusters.h"

namespace fulcrum::classify {
namespace {

// Of the computation from nothing itself: the rows of its result are further apart in memory, and BLAS then sums in
// another order.
constexpr double kRounding = 1e-14;

class PoolDecisionsTest : public ::testing::Test {
 protected:
  /// Trains on the first `count` rows and checks the kept values against a computation from nothing.
  PoolDecisions::UpdateReport TrainAndUpdate(std::size_t count, PoolDecisions& decisions) {
    const SvmModel model = *trainer_.Train(clusters_.LabelsOfFirst(count), 3);
    const auto report = decisions.Update(model);
    const Matrix<double> full = DecisionValues(model, *clusters_.features, *clusters_.features);
    EXPECT_LE(LargestDifference(decisions.values(), full.view()), report.drift_bound + kRounding);
    const Matrix<double> naive = NaiveDecisions(model, clusters_.values(), clusters_.values());
    EXPECT_LE(LargestDifference(decisions.values(), naive.view()), report.drift_bound + 1e-10);
    EXPECT_EQ(report.columns_total, model.support_rows.size());
    return report;
  }

  LabeledClusters clusters_ = MakeClusters(600, 8, 3, 51);
  // A small C leaves most multipliers at their bound, so that few change.
  SvmTrainer trainer_{{.c = 0.05}, *clusters_.features};
};

TEST_F(PoolDecisionsTest, OnlyChangedColumnsAreComputed) {
  PoolDecisions decisions(*clusters_.features);
  EXPECT_TRUE(TrainAndUpdate(400, decisions).full);
  std::size_t partial = 0;
  for (std::size_t count = 405; count <= 500; count += 5) {
    const auto report = TrainAndUpdate(count, decisions);
    if (report.full) continue;
    ++partial;
    EXPECT_GT(report.columns_updated, 0u);
    EXPECT_LE(2 * report.columns_updated, report.columns_total);
    EXPECT_LT(report.drift_bound, 1e-8);
  }
  EXPECT_GE(partial, 15u);
}

TEST_F(PoolDecisionsTest, InBlocksOfAnyOrderTheValuesAreThoseOfAnUpdate) {
  PoolDecisions whole(*clusters_.features), blocks(*clusters_.features);
  for (const std::size_t count : {400, 405}) {
    const SvmModel model = *trainer_.Train(clusters_.LabelsOfFirst(count), 3);
    const auto expected = whole.Update(model), report = blocks.Begin(model);
    EXPECT_EQ(report.full, count == 400);
    EXPECT_EQ(report.columns_updated, expected.columns_updated);
    const std::size_t cut = PoolDecisions::kRowsOfBlock;
    blocks.UpdateRows(cut, blocks.rows() - cut);
    blocks.UpdateRows(0, cut);
    blocks.Finish();
    EXPECT_EQ(LargestDifference(blocks.values(), whole.values()), 0);
  }
}

TEST_F(PoolDecisionsTest, AnUpdateThatWasGivenUpIsFollowedByAFullOne) {
  PoolDecisions decisions(*clusters_.features);
  TrainAndUpdate(400, decisions);
  const SvmModel model = *trainer_.Train(clusters_.LabelsOfFirst(405), 3);
  EXPECT_FALSE(decisions.Begin(model).full);
  decisions.UpdateRows(0, PoolDecisions::kRowsOfBlock);
  EXPECT_TRUE(TrainAndUpdate(410, decisions).full);
}

TEST_F(PoolDecisionsTest, AnUnchangedModelCostsNothing) {
  PoolDecisions decisions(*clusters_.features);
  TrainAndUpdate(400, decisions);
  const auto report = TrainAndUpdate(400, decisions);
  EXPECT_FALSE(report.full);
  EXPECT_EQ(report.columns_updated, 0u);
}

TEST_F(PoolDecisionsTest, AnOffsetMayChangeAlone) {
  PoolDecisions decisions(*clusters_.features);
  SvmModel model = *trainer_.Train(clusters_.LabelsOfFirst(400), 3);
  decisions.Update(model);
  const double before = decisions.values()(7, 1);
  model.pairs[1].rho += 0.25;
  EXPECT_FALSE(decisions.Update(model).full);
  EXPECT_NEAR(decisions.values()(7, 1), before - 0.25, 1e-12);
}

TEST_F(PoolDecisionsTest, TheDriftBoundForcesAFullComputation) {
  PoolDecisions never(*clusters_.features, /*tolerance=*/0);
  TrainAndUpdate(400, never);
  EXPECT_TRUE(TrainAndUpdate(405, never).full);

  // Back and forth between two models adds the same bound every time; the tolerance has room for three.
  const SvmModel models[] = {*trainer_.Train(clusters_.LabelsOfFirst(400), 3),
                             *trainer_.Train(clusters_.LabelsOfFirst(403), 3)};
  PoolDecisions generous(*clusters_.features);
  for (const SvmModel& model : models) generous.Update(model);
  const double two = generous.Update(models[0]).drift_bound;
  generous.Update(models[1]);
  const double increment = (generous.Update(models[0]).drift_bound - two) / 2;
  ASSERT_GT(increment, 0);
  PoolDecisions limited(*clusters_.features, 3.5 * increment);
  std::string pattern;
  for (int update = 0; update < 12; ++update) pattern += limited.Update(models[update % 2]).full ? 'F' : '.';
  EXPECT_EQ(pattern, "F...F...F...");
}

TEST_F(PoolDecisionsTest, ManyChangesOrOtherPairsAreComputedAfresh) {
  PoolDecisions decisions(*clusters_.features);
  TrainAndUpdate(30, decisions);
  EXPECT_EQ(TrainAndUpdate(600, decisions).reason, "most support vectors changed");
  std::vector<ClassIndex> two = clusters_.truth;
  for (ClassIndex& label : two) label = label == 2 ? kUnlabeled : label;
  EXPECT_EQ(decisions.Update(*trainer_.Train(two, 3)).reason, "other classes or kernel than before");
  EXPECT_EQ(decisions.values().cols(), 1u);
  decisions.Reset();
  EXPECT_TRUE(decisions.Update(*trainer_.Train(two, 3)).full);
}

}  // namespace
}  // namespace fulcrum::classify
