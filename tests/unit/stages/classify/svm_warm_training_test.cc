// A training that starts from the one before must end where a cold one ends.
#include <gtest/gtest.h>

#include "stages/classify/svm_model.h"
#include "stages/classify/svm_trainer.h"
#include "stages/core/random.h"
#include "tests/unit/stages/classify/labeled_clusters.h"

namespace fulcrum::classify {
namespace {

constexpr double kWarmTight = 1e-8;

/// A trainer that stays and, for every step, a new one.
class WarmTrainingTest : public ::testing::TestWithParam<std::size_t> {
 protected:
  void ExpectSameAsCold(const std::vector<ClassIndex>& labels) {
    const auto warm = trainer_.Train(labels, GetParam());
    SvmTrainer fresh(parameters_, *clusters_.features);
    const auto cold = fresh.Train(labels, GetParam());
    ASSERT_TRUE(warm.ok() && cold.ok()) << warm.status() << cold.status();
    EXPECT_FALSE(fresh.report().warm);
    ASSERT_EQ(warm->pairs.size(), cold->pairs.size());
    for (std::size_t p = 0; p < warm->pairs.size(); ++p) {
      EXPECT_NEAR(warm->pairs[p].objective, cold->pairs[p].objective, 1e-9 * std::abs(cold->pairs[p].objective));
      EXPECT_NEAR(warm->pairs[p].objective, NaiveObjective(*warm, p, clusters_.values()), 1e-8);
    }
    const Matrix<double> a = DecisionValues(*warm, *clusters_.features, *clusters_.features);
    const Matrix<double> b = DecisionValues(*cold, *clusters_.features, *clusters_.features);
    EXPECT_LT(LargestDifference(a.view(), b.view()), 1e-5);
    cold_iterations_ = fresh.report().iterations;
  }

  LabeledClusters clusters_ = MakeClusters(420, 6, GetParam(), 31);
  SvmParameters parameters_{.tolerance = kWarmTight};
  SvmTrainer trainer_{parameters_, *clusters_.features};
  std::size_t cold_iterations_ = 0;
};

TEST_P(WarmTrainingTest, LabelsAdded) {
  ExpectSameAsCold(clusters_.LabelsOfFirst(300));
  EXPECT_FALSE(trainer_.report().warm);
  for (std::size_t count : {305u, 330u, 420u}) {
    ExpectSameAsCold(clusters_.LabelsOfFirst(count));
    EXPECT_TRUE(trainer_.report().warm);
    EXPECT_LT(trainer_.report().iterations, cold_iterations_);
  }
}

TEST_P(WarmTrainingTest, LabelsWithdrawn) {
  std::vector<ClassIndex> labels = clusters_.LabelsOfFirst(300);
  ExpectSameAsCold(labels);
  for (std::size_t row = 0; row < 40; row += 4) labels[row] = kUnlabeled;
  ExpectSameAsCold(labels);
  EXPECT_TRUE(trainer_.report().warm);
  for (std::size_t row = 0; row < 200; ++row) labels[row] = kUnlabeled;
  ExpectSameAsCold(labels);
}

TEST_P(WarmTrainingTest, LabelsChanged) {
  std::vector<ClassIndex> labels = clusters_.LabelsOfFirst(300);
  ExpectSameAsCold(labels);
  for (std::size_t row = 5; row < 65; row += 6) labels[row] = (labels[row] + 1) % static_cast<ClassIndex>(GetParam());
  ExpectSameAsCold(labels);
  EXPECT_TRUE(trainer_.report().warm);
  for (ClassIndex& label : labels) {
    if (label != kUnlabeled) label = (label + 1) % static_cast<ClassIndex>(GetParam());
  }
  ExpectSameAsCold(labels);
}

TEST_P(WarmTrainingTest, ManyRoundsOfEverything) {
  Random random(5);
  std::vector<ClassIndex> labels = clusters_.LabelsOfFirst(250);
  for (int round = 0; round < 20; ++round) {
    for (int change = 0; change < 8; ++change) {
      const std::size_t row = random.Below(labels.size());
      const bool withdraw = labels[row] != kUnlabeled && random.Below(2) == 0;
      labels[row] = withdraw ? kUnlabeled : static_cast<ClassIndex>(random.Below(GetParam()));
    }
    ExpectSameAsCold(labels);
  }
}

TEST_P(WarmTrainingTest, AClassThatVanishesAndComesBack) {
  const std::vector<ClassIndex> all = clusters_.LabelsOfFirst(240);
  std::vector<ClassIndex> without = all;
  for (ClassIndex& label : without) label = label == 0 ? kUnlabeled : label;
  ExpectSameAsCold(all);
  if (GetParam() > 2) {
    ExpectSameAsCold(without);
  } else {
    EXPECT_EQ(trainer_.Train(without, 2).status().code(), absl::StatusCode::kFailedPrecondition);
  }
  ExpectSameAsCold(all);
}

INSTANTIATE_TEST_SUITE_P(Classes, WarmTrainingTest, ::testing::Values(2, 3));

TEST(SvmTrainerResetTest, AfterAResetTrainingIsColdAgain) {
  const LabeledClusters clusters = MakeClusters(200, 6, 2, 32);
  SvmTrainer trainer({}, *clusters.features);
  const SvmModel first = *trainer.Train(clusters.truth, 2);
  ASSERT_TRUE(trainer.Train(clusters.truth, 2).ok());
  EXPECT_TRUE(trainer.report().warm);
  EXPECT_EQ(trainer.report().iterations, 0u);
  trainer.Reset();
  const SvmModel again = *trainer.Train(clusters.truth, 2);
  EXPECT_FALSE(trainer.report().warm);
  EXPECT_EQ(again.iterations(), first.iterations());
  EXPECT_EQ(LargestDifference(again.coefficients.view(), first.coefficients.view()), 0);
}

TEST(SvmWarmStartTest, UpdatedProductsAreThoseOfTheMultipliersCarriedOver) {
  const LabeledClusters clusters = MakeClusters(300, 6, 2, 33);
  std::vector<ClassIndex> labels = clusters.LabelsOfFirst(280);
  kernel::RowSetKernel gram({}, *clusters.features);
  const auto update = [&] {
    RowList rows;
    for (RowIndex row = 0; row < labels.size(); ++row) {
      if (labels[row] != kUnlabeled) rows.push_back(row);
    }
    gram.Update(rows);
    return MakePairProblem(0, 1, gram, labels, {});
  };
  PairProblem before = update();
  before.solution = SolveSmo(before.View(gram), {});
  labels[3] = kUnlabeled;
  labels[10] = 1 - labels[10];
  labels[290] = clusters.truth[290];
  const PairProblem after = update();
  const CarriedMultipliers start = CarryMultipliers(before, after, gram);
  ASSERT_EQ(start.products.size(), after.rows.size()) << "so small a change should not cost a full product";
  for (std::size_t t = 0; t < after.rows.size(); ++t) {
    double product = 0;
    for (std::size_t s = 0; s < after.rows.size(); ++s) {
      product += gram.matrix()(after.positions[t], after.positions[s]) * after.y[s] * start.alpha[s];
    }
    EXPECT_NEAR(start.products[t], product, 1e-10);
  }
}

}  // namespace
}  // namespace fulcrum::classify
