// How a round reads its pool: in blocks, with a test set behind it, and after it has grown.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <set>

#include "gtest/gtest.h"
#include "pipeline/round/round.h"
#include "stages/classify/svm_model.h"
#include "stages/core/parallel.h"
#include "stages/core/random.h"
#include "tests/support/matrices.h"
#include "tests/unit/pipeline/round/round_fixture.h"

namespace fulcrum::pipeline {
namespace {

using RoundPoolTest = RoundTest;

TEST_F(RoundPoolTest, APoolOfManyBlocksGivesEveryRowTheClassOfItsDecisionValues) {
  // More blocks than the limiter lets in at once, and a last one that is not full.
  constexpr std::size_t kManyRows = 50 * 1024 + 77;
  Matrix<double> points = testing::RandomMatrix(kManyRows, kDims, 3);
  for (std::size_t row = 0; row < kManyRows; ++row) points(row, 0) += row % 2 == 0 ? -1.5 : 1.5;
  const kernel::DenseFeatures features(std::move(points));
  std::vector<ClassIndex> labels(kManyRows, kUnlabeled);
  for (std::size_t row = 0; row < 60; ++row) labels[row] = static_cast<ClassIndex>(row % 2);
  RoundRunner runner(Spec("uncertainty", 20), features);
  std::size_t reports = 0;
  const auto progress = [&](std::string_view stage, std::size_t done, std::size_t total) {
    if (stage == "predict" && done <= total) ++reports;
  };
  const auto result = runner.Run({.class_count = 2, .labels = labels, .predictions = {}}, progress);
  ASSERT_TRUE(result.ok()) << result.status();
  const auto expected =
      classify::VoteClasses(*result->model, classify::DecisionValues(*result->model, features, features).view());
  for (std::size_t row = 0; row < kManyRows; ++row) {
    ASSERT_EQ(result->predicted[row], labels[row] == kUnlabeled ? expected[row] : labels[row]) << row;
  }
  EXPECT_GE(reports, 10u);
  EXPECT_LE(reports, 15u);
}

TEST_F(RoundPoolTest, DecisionValuesOfATestSetBehindThePoolComeWithTheRound) {
  constexpr std::size_t kPoolRows = 400;
  const kernel::DenseFeatures pool(Matrix<double>::CopyOf(points_.view().Rows(0, kPoolRows)));
  RoundRunner with_test_set(Spec("dbalevs", 10), pool, features_), alone(Spec("dbalevs", 10), pool);
  RoundInput input = Input();
  input.labels = input.labels.subspan(0, kPoolRows);
  const auto result = with_test_set.Run(input), expected = alone.Run(input);
  ASSERT_TRUE(result.ok() && expected.ok()) << result.status() << expected.status();
  EXPECT_EQ(PickedRows(*result), PickedRows(*expected));
  EXPECT_EQ(result->predicted, expected->predicted);
  const Matrix<double> decisions = classify::DecisionValues(*result->model, features_, features_);
  ASSERT_EQ(with_test_set.decisions().rows(), kRows);
  for (std::size_t row = 0; row < kRows; ++row) {
    EXPECT_NEAR(with_test_set.decisions()(row, 0), decisions(row, 0), 1e-9) << row;
  }
}

/// Features that are copied block by block, as those of a pool on the disk are, and that count the copies.
class CountedRows final : public kernel::Features {
 public:
  explicit CountedRows(Matrix<double> values) : dense_(std::move(values)) {
    squared_norms_.assign(dense_.squared_norms().begin(), dense_.squared_norms().end());
  }
  kernel::FeatureKind kind() const override { return kernel::FeatureKind::kDense; }
  std::size_t dims() const override { return dense_.dims(); }
  kernel::Precision precision() const override { return kernel::Precision::kFloat; }
  kernel::PackedRows Pack(std::span<const RowIndex> rows) const override { return dense_.Pack(rows); }
  void CopyRows(std::span<const RowIndex> rows, MatrixView<float> out) const override {
    copied += rows.size();
    dense_.CopyRows(rows, out);
  }

  mutable std::atomic<std::size_t> copied = 0;

 private:
  kernel::DenseFeatures dense_;
};

TEST_F(RoundPoolTest, NoMoreBlocksAreReadThanTheLimiterAdmits) {
  constexpr std::size_t kRowsPerBlock = 1024, kBlocks = 100, kBlocksPerReport = kBlocks / 10;
  const CountedRows features(testing::RandomMatrix(kBlocks * kRowsPerBlock, kDims, 3));
  std::vector<ClassIndex> labels(features.rows(), kUnlabeled);
  for (std::size_t row = 0; row < 60; ++row) labels[row] = static_cast<ClassIndex>(row % 2);
  RoundRunner runner(Spec("uncertainty", 20), features);
  std::size_t before = 0, most_ahead = 0;
  const auto progress = [&](std::string_view stage, std::size_t done, std::size_t) {
    if (stage != "predict") return;
    if (done == 0) before = features.copied;
    most_ahead = std::max(most_ahead, (features.copied - before) / kRowsPerBlock - done);
  };
  const auto result = runner.Run({.class_count = 2, .labels = labels, .predictions = {}}, progress);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(features.copied - before, features.rows()) << "every row is read once";
  EXPECT_LE(most_ahead, BlocksForAllThreads() + kBlocksPerReport);
}

TEST_F(RoundPoolTest, ARoundAfterThePoolHasGrownIsWarmAndGivesWhatAColdOneDoes) {
  constexpr std::size_t kFirstRows = 480;
  const kernel::DenseFeatures first(Matrix<double>::CopyOf(points_.view().Rows(0, kFirstRows)));
  RoundRunner grown(Spec("dbalevs", 10), first), cold(Spec("dbalevs", 10), features_);
  RoundInput before = Input();
  before.labels = before.labels.subspan(0, kFirstRows);
  ASSERT_TRUE(grown.Run(before).ok());
  grown.MoveTo(features_);
  LabelRows(kFirstRows, 10);
  const auto after = grown.Run(Input());
  const auto expected = cold.Run(Input());
  ASSERT_TRUE(after.ok() && expected.ok()) << after.status() << expected.status();
  EXPECT_EQ(PickedRows(*after), PickedRows(*expected));
  EXPECT_EQ(after->predicted, expected->predicted);
  EXPECT_TRUE(after->svm->warm);
  EXPECT_LT(after->svm->iterations, expected->svm->iterations);
  for (const ClassReport& report : after->classes) EXPECT_TRUE(report.warm) << report.reason;
}

TEST_F(RoundPoolTest, LandmarksOutliveTheGrowthOfThePool) {
  constexpr std::size_t kFirstRows = 480;
  const kernel::DenseFeatures first(Matrix<double>::CopyOf(points_.view().Rows(0, kFirstRows)));
  RoundSpec spec = Spec("dbalevs", 10);
  spec.engine = "landmark";
  spec.landmarks = 60;
  RoundRunner grown(spec, first), restarted(spec, features_);
  RoundInput before = Input();
  before.labels = before.labels.subspan(0, kFirstRows);
  ASSERT_TRUE(grown.Run(before).ok());
  const auto landmarks = grown.Landmarks();
  grown.MoveTo(features_);
  restarted.RecallLandmarks(landmarks);
  const auto after = grown.Run(Input()), again = restarted.Run(Input());
  ASSERT_TRUE(after.ok() && again.ok()) << after.status() << again.status();
  EXPECT_EQ(grown.Landmarks(), landmarks);
  EXPECT_EQ(PickedRows(*after), PickedRows(*again));
}

}  // namespace
}  // namespace fulcrum::pipeline
