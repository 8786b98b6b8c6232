#include "stages/ingest/normalize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tbb/global_control.h"
#include "tests/support/data_sets.h"
#include "tests/support/matrices.h"

namespace fulcrum::ingest {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<NormalizeStep> kBoth = {NormalizeStep::kZscore, NormalizeStep::kUnit};

double LargestDifference(ConstMatrixView a, ConstMatrixView b) {
  double largest = 0;
  for (std::size_t row = 0; row < a.rows(); ++row) {
    for (std::size_t col = 0; col < a.cols(); ++col) largest = std::max(largest, std::abs(a(row, col) - b(row, col)));
  }
  return largest;
}

TEST(Normalize, ParsesStepsInTheirOrder) {
  EXPECT_THAT(*ParseNormalization("none"), IsEmpty());
  EXPECT_THAT(*ParseNormalization("zscore,unit"), ElementsAre(NormalizeStep::kZscore, NormalizeStep::kUnit));
  EXPECT_THAT(*ParseNormalization(" unit , zscore "), ElementsAre(NormalizeStep::kUnit, NormalizeStep::kZscore));
  for (const char* text : {"", "minmax", "zscore,", "unit,unit", "none,unit"}) {
    EXPECT_EQ(ParseNormalization(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(Normalize, TfidfIsThePlainFormulaDenseAndSparse) {
  Matrix<double> counts = Matrix<double>::Zero(3, 2);
  counts(0, 0) = 2;
  counts(1, 0) = 1;
  counts(1, 1) = 4;
  SparseMatrix sparse;
  sparse.cols = 2;
  sparse.columns = {0, 0, 1};
  sparse.values = {2, 1, 4};
  sparse.offsets = {0, 1, 3, 3};
  const std::vector<NormalizeStep> steps = {NormalizeStep::kTfidf};
  const double often = std::log(4.0 / 3) + 1, once = std::log(4.0 / 2) + 1;
  const auto fitted = Normalizer::Fit(steps, sparse);
  ASSERT_TRUE(fitted.ok()) << fitted.status();
  PoolFeatures features(std::move(sparse));
  fitted->Apply(features);
  EXPECT_THAT(features.sparse().values, ElementsAre(2 * often, 1 * often, 4 * once));
  ASSERT_TRUE(Normalizer::FitInPlace(steps, counts.view()).ok());
  EXPECT_EQ(counts(1, 1), 4 * once);
  EXPECT_EQ(counts(0, 0), 2 * often);
  EXPECT_EQ(counts(2, 0), 0);
}

TEST(Normalize, OneHotGivesEachCategoryAColumnOfItsOwn) {
  Matrix<double> rows(4, 2);
  const double categories[] = {7, 2, 2, 5}, numbers[] = {0.5, 1.5, 2.5, 3.5};
  for (std::size_t row = 0; row < 4; ++row) {
    rows(row, 0) = categories[row];
    rows(row, 1) = numbers[row];
  }
  Matrix<double> scaled = rows.Clone();
  ASSERT_TRUE(Normalizer::FitInPlace({NormalizeStep::kZscore}, scaled.view()).ok());
  const auto fitted = Normalizer::Fit({NormalizeStep::kOneHot}, rows.view());
  ASSERT_TRUE(fitted.ok()) << fitted.status();
  EXPECT_TRUE(fitted->adds_columns());
  PoolFeatures features(rows.Clone());
  fitted->Apply(features);
  const double scale = 1 / std::sqrt(0.25 * 0.75 + 0.25 * 0.75 + 0.5 * 0.5);
  EXPECT_THAT(features.dense().row(0), ElementsAre(0, 0, scale, scaled(0, 1)));
  EXPECT_THAT(features.dense().row(1), ElementsAre(scale, 0, 0, scaled(1, 1)));
  EXPECT_THAT(features.dense().row(3), ElementsAre(0, scale, 0, scaled(3, 1)));
  Matrix<double> unknown = rows.Clone();
  unknown(0, 0) = 3;
  PoolFeatures others(std::move(unknown));
  fitted->Apply(others);
  EXPECT_THAT(others.dense().row(0), ElementsAre(0, 0, 0, scaled(0, 1)));
}

TEST(Normalize, RobustScalingIgnoresOutliers) {
  Matrix<double> rows(101, 3);
  for (std::size_t row = 0; row < 101; ++row) {
    rows(row, 0) = static_cast<double>(row);  // median 50, quartiles 25 and 75
    rows(row, 1) = row < 81 ? 2 : 1e6;        // quartiles equal: the deviation is the scale
    rows(row, 2) = 7;
  }
  rows(100, 0) = 1e9;
  const auto fitted = Normalizer::Fit({NormalizeStep::kRobust}, rows.view());
  ASSERT_TRUE(fitted.ok()) << fitted.status();
  EXPECT_THAT(fitted->constant_columns(), ElementsAre(2));
  PoolFeatures features(rows.Clone());
  fitted->Apply(features);
  EXPECT_NEAR(features.dense()(60, 0), 10 / (50 / 1.349), 1e-12);
  EXPECT_EQ(features.dense()(100, 0), 3) << "clipped";
  EXPECT_NEAR(features.dense()(100, 1), std::sqrt(101.0 / 20), 1e-6);
  EXPECT_EQ(features.dense()(5, 1), 0);
  EXPECT_EQ(features.dense()(5, 2), 0);
  // A larger set of rows has the quantiles of evenly spaced ones.
  EXPECT_EQ(RowsForQuantiles(3), (RowList{0, 1, 2}));
  const RowList sample = RowsForQuantiles(1'000'000);
  EXPECT_EQ(sample.size(), 4'096u);
  EXPECT_EQ(sample[1], 244u);
  for (const char* text : {"zscore,robust", "robust,onehot"}) {
    EXPECT_EQ(ParseNormalization(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(Normalize, FitLearnsWhatFitInPlaceDoes) {
  const Matrix<double> original = testing::RandomMatrix(300, 5, 6);
  for (const std::vector<NormalizeStep>& steps :
       {kBoth, std::vector<NormalizeStep>{NormalizeStep::kTfidf, NormalizeStep::kUnit},
        std::vector<NormalizeStep>{NormalizeStep::kRobust, NormalizeStep::kUnit}}) {
    Matrix<double> in_place = original.Clone(), applied = original.Clone();
    ASSERT_TRUE(Normalizer::FitInPlace(steps, in_place.view()).ok());
    const auto fitted = Normalizer::Fit(steps, original.view());
    ASSERT_TRUE(fitted.ok()) << fitted.status();
    fitted->Apply(applied.view());
    EXPECT_EQ(LargestDifference(in_place.view(), applied.view()), 0);
  }
  const std::vector<NormalizeStep> reversed = {NormalizeStep::kUnit, NormalizeStep::kZscore};
  EXPECT_EQ(Normalizer::Fit(reversed, original.view()).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(Normalize, AgreesWithThePlainFormula) {
  Matrix<double> features = testing::RandomMatrix(2000, 7, 5);
  for (std::size_t row = 0; row < features.rows(); ++row) {
    features(row, 1) = features(row, 1) * 100 + 1000;
    features(row, 2) = 4;
  }
  Matrix<double> expected = features.Clone();
  testing::StandardizeAndScaleToUnit(expected.view());
  const auto normalizer = Normalizer::FitInPlace(kBoth, features.view());
  ASSERT_TRUE(normalizer.ok());
  EXPECT_LT(LargestDifference(features.view(), expected.view()), 1e-13);
  EXPECT_THAT(normalizer->constant_columns(), ElementsAre(2));
}

TEST(Normalize, IsTheSameBitForBitWhateverTheThreads) {
  const Matrix<double> original = testing::RandomMatrix(5000, 33, 9);
  Matrix<double> results[2];
  for (std::size_t threads : {1, 2}) {
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
    results[threads - 1] = original.Clone();
    ASSERT_TRUE(Normalizer::FitInPlace(kBoth, results[threads - 1].view()).ok());
  }
  EXPECT_EQ(LargestDifference(results[0].view(), results[1].view()), 0);
}

TEST(Normalize, AppliesTheTrainingStatisticsToOtherRows) {
  Matrix<double> train(2, 1), test(1, 1);
  train(0, 0) = 1;
  train(1, 0) = 3;
  test(0, 0) = 5;
  const auto normalizer = Normalizer::FitInPlace({NormalizeStep::kZscore}, train.view());
  normalizer->Apply(test.view());
  // Mean 2, sample deviation sqrt(2).
  EXPECT_DOUBLE_EQ(test(0, 0), 3 / std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(train(0, 0), -1 / std::sqrt(2.0));
}

TEST(Normalize, RowsOfZerosStayAndExtremeOnesReachUnitLength) {
  const double largest = std::numeric_limits<double>::max();
  Matrix<double> features = Matrix<double>::Zero(4, 3);
  features(1, 0) = largest, features(1, 1) = largest, features(1, 2) = -largest;
  features(2, 0) = 3e-300, features(2, 1) = 4e-300;
  features(3, 0) = 3, features(3, 2) = 4;
  ASSERT_TRUE(Normalizer::FitInPlace({NormalizeStep::kUnit}, features.view()).ok());
  EXPECT_THAT(features.row(0), ElementsAre(0, 0, 0));
  EXPECT_NEAR(features(1, 2), -1 / std::sqrt(3.0), 1e-15);
  EXPECT_NEAR(features(2, 1), 0.8, 1e-15);
  EXPECT_NEAR(features(3, 2), 0.8, 1e-15);
}

TEST(Normalize, OverflowIsAnErrorNotANaN) {
  Matrix<double> features(2, 1);
  features(0, 0) = 1e300;
  features(1, 0) = -1e300;
  EXPECT_EQ(Normalizer::FitInPlace(kBoth, features.view()).status().code(), absl::StatusCode::kDataLoss);
}

TEST(Normalize, ASingleRowHasNoDeviation) {
  Matrix<double> features = testing::RandomMatrix(1, 3, 1);
  const auto normalizer = Normalizer::FitInPlace(kBoth, features.view());
  ASSERT_TRUE(normalizer.ok());
  EXPECT_THAT(features.row(0), ElementsAre(0, 0, 0));
  EXPECT_EQ(normalizer->constant_columns().size(), 3u);
}

SparseMatrix SmallSparse() {
  SparseMatrix sparse;
  sparse.cols = 4;
  sparse.offsets = {0, 2, 2, 5};
  sparse.columns = {0, 3, 0, 1, 2};
  sparse.values = {3, 4, 1, -2, 2};
  return sparse;
}

TEST(NormalizeTest, UnitLengthKeepsSparseFeaturesSparseAndEqualsTheDenseOne) {
  PoolFeatures sparse{SmallSparse()};
  Matrix<double> dense = ToDense(SmallSparse());
  ASSERT_TRUE(Normalizer::FitInPlace({NormalizeStep::kUnit}, sparse).ok());
  ASSERT_TRUE(Normalizer::FitInPlace({NormalizeStep::kUnit}, dense.view()).ok());
  ASSERT_TRUE(sparse.is_sparse());
  const Matrix<double> same = ToDense(sparse.sparse());
  for (std::size_t row = 0; row < 3; ++row) {
    for (std::size_t col = 0; col < 4; ++col) EXPECT_DOUBLE_EQ(same(row, col), dense(row, col));
  }
}

TEST(NormalizeTest, AZscoreMakesSparseFeaturesDenseIfTheyFit) {
  PoolFeatures features{SmallSparse()};
  EXPECT_EQ(Normalizer::FitInPlace(kBoth, features, 3 * 4 * sizeof(double) - 1).status().code(),
            absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(Normalizer::FitInPlace(kBoth, features, 3 * 4 * sizeof(double)).ok());
  ASSERT_FALSE(features.is_sparse());
  Matrix<double> dense = ToDense(SmallSparse());
  ASSERT_TRUE(Normalizer::FitInPlace(kBoth, dense.view()).ok());
  for (std::size_t row = 0; row < 3; ++row) {
    for (std::size_t col = 0; col < 4; ++col) EXPECT_EQ(features.dense()(row, col), dense(row, col));
  }
}

}  // namespace
}  // namespace fulcrum::ingest
