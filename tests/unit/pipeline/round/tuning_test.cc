#include "pipeline/round/tuning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "stages/core/random.h"
#include "tbb/global_control.h"
#include "tests/support/matrices.h"
#include "tests/unit/pipeline/round/tuning_pools.h"

namespace fulcrum::pipeline {
namespace {

using ::testing::HasSubstr;

/// The class is in a column of small numbers, next to one of large numbers without meaning.
ingest::PoolFeatures UnequalScales() {
  Matrix<double> points = testing::RandomMatrix(kTuningRows, 2, 4);
  for (std::size_t row = 0; row < kTuningRows; ++row) {
    points(row, 0) = 0.01 * (points(row, 0) + (row % 2 == 0 ? -3 : 3));
    points(row, 1) *= 1000;
  }
  return ingest::PoolFeatures(std::move(points));
}

/// Texts of frequent words without meaning, and rare words that tell the class.
ingest::PoolFeatures Counts() {
  SparseMatrix counts;
  counts.cols = 220;
  Random random(5);
  for (std::size_t row = 0; row < kTuningRows; ++row) {
    std::vector<double> words(counts.cols, 0.0);
    for (std::size_t i = 0; i < 60; ++i) words[random.Below(20)] += 1;
    for (std::size_t i = 0; i < 4; ++i) words[20 + 100 * (row % 2) + random.Below(100)] += 1;
    for (std::size_t col = 0; col < words.size(); ++col) {
      if (words[col] == 0) continue;
      counts.columns.push_back(static_cast<std::int32_t>(col));
      counts.values.push_back(words[col]);
    }
    counts.offsets.push_back(counts.values.size());
  }
  return ingest::PoolFeatures(std::move(counts));
}

RowList AllRowsOf(std::size_t count) {
  RowList rows(count);
  std::iota(rows.begin(), rows.end(), RowIndex{0});
  return rows;
}

TunedSettings TuneOn(const ingest::PoolFeatures& features, std::size_t labels) {
  auto settings = Tune(MemoryFeatureSource(features), FirstLabels(labels), 1);
  EXPECT_TRUE(settings.ok()) << settings.status();
  return *std::move(settings);
}

TEST(Tune, KeepsTheLengthOfRowsIfItTellsTheClasses) {
  const TunedSettings settings = TuneOn(Shells(), 40);
  EXPECT_THAT(settings.chosen.normalize,
              ::testing::AnyOf("zscore", "none", "robust", "quantile", ::testing::StartsWith("bins")));
  EXPECT_EQ(settings.chosen.classifier, "logistic");
  EXPECT_EQ(settings.chosen.kernel.type, kernel::KernelType::kRbf);
  EXPECT_GT(settings.chosen.accuracy, 0.8);
  EXPECT_EQ(settings.labels, 40u);
  ASSERT_EQ(settings.runners_up.size(), 3u);
  EXPECT_THAT(settings.reason, HasSubstr("84 settings"));
}

/// Two overlapping clouds, of which the second one has one row in eight.
TEST(Tune, GivesWeightToRareClassesIfThatHelps) {
  Matrix<double> points = testing::RandomMatrix(kTuningRows, 3, 8);
  std::vector<ClassIndex> labels(kTuningRows, kUnlabeled);
  for (std::size_t row = 0; row < kTuningRows; ++row) {
    const bool rare = row % 8 == 0;
    if (rare) points(row, 0) += 1.2;
    if (row < 240) labels[row] = rare ? 1 : 0;
  }
  const ingest::PoolFeatures features(std::move(points));
  const MemoryFeatureSource source(features);
  const auto chosen = Tune(source, labels, 1), given = Tune(source, labels, 1, {}, /*weigh_classes=*/false);
  ASSERT_TRUE(chosen.ok() && given.ok());
  EXPECT_TRUE(given->chosen.class_weights.empty()) << "they are given";
  EXPECT_LE(chosen->chosen.log_loss, given->chosen.log_loss);
  if (!chosen->chosen.class_weights.empty()) {
    EXPECT_GT(chosen->chosen.class_weights[1], chosen->chosen.class_weights[0]);
  }
  // The same settings otherwise.
  EXPECT_EQ(chosen->chosen.normalize, given->chosen.normalize);
  EXPECT_EQ(chosen->chosen.c, given->chosen.c);
  // Equal classes have no weights to choose from.
  EXPECT_TRUE(TuneOn(Shells(), 40).chosen.class_weights.empty());
}

TEST(Tune, WeightsOfClassesAreThoseOfTheClassifierUnlessTheyAreGiven) {
  const ClassifierChoice choice{.class_weights = {0.5, 2}};
  classify::SvmParameters parameters;
  UseChoice(choice, 3, parameters);
  EXPECT_THAT(parameters.class_weights, ::testing::ElementsAre(0.5, 2, 1));
  parameters.class_weights = {1, 7, 1};
  UseChoice(choice, 3, parameters);
  EXPECT_THAT(parameters.class_weights, ::testing::ElementsAre(1, 7, 1));
}

TEST(Tune, DoubtfulLabelsHardlyCount) {
  const ingest::PoolFeatures features = UnequalScales();
  std::vector<ClassIndex> labels = FirstLabels(60);
  std::vector<double> weights(kTuningRows, 1.0);
  for (std::size_t row = 0; row < 60; row += 5) {
    labels[row] = 1 - labels[row];
    weights[row] = 0.001;
  }
  const auto misled = Tune(MemoryFeatureSource(features), labels, 1);
  const auto weighted = Tune(MemoryFeatureSource(features), labels, 1, weights);
  ASSERT_TRUE(misled.ok() && weighted.ok());
  EXPECT_LT(misled->chosen.accuracy, 0.9);
  EXPECT_GT(weighted->chosen.accuracy, 0.95);
  EXPECT_LT(weighted->chosen.log_loss, misled->chosen.log_loss - 0.1);
}

TEST(Tune, ScalesColumnsThatAreOfUnequalScale) {
  const TunedSettings settings = TuneOn(UnequalScales(), 30);
  EXPECT_NE(settings.chosen.normalize, "none");
  EXPECT_GT(settings.chosen.accuracy, 0.95);
}

TEST(Tune, WeightsRareWordsOfSparseCountsAndKeepsThemSparse) {
  const ingest::PoolFeatures counts = Counts();
  const TunedSettings settings = TuneOn(counts, 100);
  EXPECT_EQ(settings.chosen.normalize, "tfidf,unit");
  const auto prepared = MemoryFeatureSource(counts).Prepare(settings.chosen.normalize);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_EQ(prepared->pool->kind(), kernel::FeatureKind::kSparse);
  for (const double norm : prepared->pool->squared_norms()) EXPECT_NEAR(norm, 1, 1e-12);
}

/// Images: black, with a bright square that is brighter in its middle.
ingest::PoolFeatures Images() {
  Matrix<double> images = Matrix<double>::Zero(kTuningRows, 20 * 20);
  Random random(6);
  for (std::size_t row = 0; row < kTuningRows; ++row) {
    const std::size_t top = random.Below(12), left = random.Below(12);
    for (std::size_t y = 0; y < 8; ++y) {
      for (std::size_t x = 0; x < 8; ++x) {
        images(row, (top + y) * 20 + left + x) = 60 + std::floor(190 * random.Uniform());
      }
    }
  }
  return ingest::PoolFeatures(std::move(images));
}

TEST(Tune, WeightsWordsOfDenseTextsFromTheFirstLabelOn) {
  for (const std::size_t labels : {0, 4}) {
    const TunedSettings settings = TuneOn(DenseTexts(), labels);
    EXPECT_EQ(settings.labels, 0u);
    EXPECT_EQ(settings.chosen.normalize, "tfidf,unit");
    EXPECT_EQ(settings.chosen.kernel.type, kernel::KernelType::kLinear);
  }
  const TunedSettings compared = TuneOn(DenseTexts(), 60);
  EXPECT_EQ(compared.labels, 60u);
  EXPECT_GT(compared.chosen.accuracy, 0.9);
}

TEST(Tune, TakesWordsThatAreWeightedAlreadyForTexts) {
  ingest::PoolFeatures texts = DenseTexts();
  for (std::size_t row = 0; row < kTuningRows; ++row) {
    // As weights of words are: of rare words only, and no whole numbers.
    for (std::size_t col = 0; col < 420; ++col) texts.dense()(row, col) *= col < 20 ? 0 : 0.37;
  }
  EXPECT_EQ(TuneOn(texts, 0).chosen.normalize, "tfidf,unit");
}

TEST(Tune, TakesNeitherImagesNorAFewColumnsOfCountsForTexts) {
  EXPECT_EQ(TuneOn(Images(), 0).chosen.normalize, "robust");
  Matrix<double> narrow(kTuningRows, 100);
  const ingest::PoolFeatures texts = DenseTexts();
  for (std::size_t row = 0; row < kTuningRows; ++row) {
    for (std::size_t col = 0; col < 100; ++col) narrow(row, col) = texts.dense()(row, 20 + col);
  }
  EXPECT_EQ(TuneOn(ingest::PoolFeatures(std::move(narrow)), 0).chosen.normalize, "robust");
}

TEST(Tune, StartsWithTheFirstNormalizationThatThePoolAllows) {
  const ingest::PoolFeatures texts = DenseTexts();
  const auto settings = Tune(WithoutTfidf(texts), FirstLabels(0), 1);
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->chosen.normalize, "unit");
  EXPECT_EQ(settings->chosen.kernel.type, kernel::KernelType::kLinear);
}

TEST(Tune, TreatsWholeNumbersAsCategoriesIfThatIsBetter) {
  Matrix<double> points(kTuningRows, 4);
  Random random(9);
  for (std::size_t row = 0; row < kTuningRows; ++row) {
    for (double& value : points.row(row)) value = static_cast<double>(random.Below(6));
    // The parity of the code tells the class, its size does not.
    const bool second = row % 2 == 1;
    points(row, 0) = static_cast<double>(2 * random.Below(3) + (second ? 1 : 0));
  }
  const TunedSettings settings = TuneOn(ingest::PoolFeatures(std::move(points)), 60);
  EXPECT_EQ(settings.chosen.normalize, "onehot");
  EXPECT_GT(settings.chosen.accuracy, 0.95);
}

TEST(Tune, CutsSkewedColumnsIntoBinsIfTheBordersAreSteps) {
  Matrix<double> points(kTuningRows, 6);
  Random random(4);
  for (std::size_t row = 0; row < kTuningRows; ++row) {
    for (double& value : points.row(row)) value = std::exp(6 * random.Uniform());
    // The second class is an interval of the first column, whose values are of all magnitudes.
    const double inside = 0.4 + 0.25 * random.Uniform(), outside = random.Uniform() * 0.75;
    points(row, 0) = std::exp(6 * (row % 2 == 1 ? inside : outside < 0.4 ? outside : outside + 0.25));
  }
  const ingest::PoolFeatures features(std::move(points));
  const TunedSettings settings = TuneOn(features, 150);
  EXPECT_THAT(settings.chosen.normalize, ::testing::StartsWith("bins"));
  EXPECT_GT(settings.chosen.accuracy, 0.85);
  const auto prepared = MemoryFeatureSource(features).Prepare("bins");
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_EQ(prepared->pool->dims(), 6 * 15u);
}

/// Two of sixteen columns tell the class, by a rule of two thresholds.
ingest::PoolFeatures RulesAmongNoise() {
  Matrix<double> points(kTuningRows, 16);
  Random random(12);
  for (std::size_t row = 0; row < kTuningRows; ++row) {
    do {
      for (double& value : points.row(row)) value = random.Uniform();
    } while ((points(row, 3) > 0.6 || points(row, 7) > 0.7) != (row % 2 == 1));
  }
  return ingest::PoolFeatures(std::move(points));
}

TEST(Tune, WeighsBinsByTheirRelevanceIfFewColumnsTellTheClass) {
  const ingest::PoolFeatures features = RulesAmongNoise();
  const TunedSettings settings = TuneOn(features, 60);
  ASSERT_THAT(settings.chosen.normalize, ::testing::StartsWith("bins@"));
  EXPECT_THAT(DescribeChoice(settings.chosen), ::testing::StartsWith("bins weighed by relevance, logistic"));
  const std::string digits = settings.chosen.normalize.substr(5);
  ASSERT_EQ(digits.size(), 16 * 15u);
  const auto of_column = [&](std::size_t col) {
    double sum = 0;
    for (std::size_t i = 0; i < 15; ++i) sum += ingest::RelevanceFactor(digits[15 * col + i]);
    return sum;
  };
  for (std::size_t col = 0; col < 16; ++col) {
    if (col == 3 || col == 7) continue;
    EXPECT_LT(of_column(col), std::min(of_column(3), of_column(7))) << col;
  }
  // The name is all that a model, a restarted daemon or another process needs to know.
  const auto prepared = MemoryFeatureSource(features).Prepare(settings.chosen.normalize);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_EQ(prepared->pool->dims(), 16 * 15u);
  const auto run = [&](std::size_t threads) {
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
    return TuneOn(features, 60);
  };
  EXPECT_EQ(run(1).chosen.normalize, run(2).chosen.normalize);
  EXPECT_EQ(run(1).chosen.log_loss, run(2).chosen.log_loss);
}

TEST(Tune, UsesTheDefaultUntilThereAreEnoughLabels) {
  const TunedSettings none = TuneOn(Shells(), 0), few = TuneOn(Shells(), 7);
  EXPECT_EQ(none.labels, 0u);
  EXPECT_EQ(none.chosen.normalize, "robust");
  EXPECT_EQ(none.chosen.kernel, few.chosen.kernel);
  EXPECT_THAT(few.reason, HasSubstr("too few labels"));
  EXPECT_EQ(TuneOn(Shells(), 8).labels, 8u);
}

TEST(Tune, TakesTheLeverageWidthFromTheData) {
  const ingest::PoolFeatures shells = Shells();
  const TunedSettings settings = TuneOn(shells, 0);
  const auto prepared = MemoryFeatureSource(shells).Prepare(settings.chosen.normalize);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  const Matrix<double> rows = prepared->pool->Pack(AllRowsOf(kTuningRows)).ToDense();
  std::vector<double> distances;
  for (std::size_t i = 0; i < kTuningRows; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      double sum = 0;
      for (std::size_t col = 0; col < rows.cols(); ++col) sum += std::pow(rows(i, col) - rows(j, col), 2);
      distances.push_back(sum);
    }
  }
  std::ranges::nth_element(distances, distances.begin() + static_cast<std::ptrdiff_t>(distances.size() / 2));
  const double median = distances[distances.size() / 2];
  // The width is that of a sample of the rows.
  EXPECT_NEAR(settings.leverage_kernel.sigma * settings.leverage_kernel.sigma, median, 0.15 * median);
}

TEST(Tune, GivesTheSameOnAnyNumberOfThreads) {
  const auto run = [](std::size_t threads) {
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
    return TuneOn(Shells(), 60);
  };
  const TunedSettings one = run(1), two = run(2);
  EXPECT_EQ(DescribeChoice(one.chosen), DescribeChoice(two.chosen));
  EXPECT_EQ(one.chosen.log_loss, two.chosen.log_loss);
}

TEST(Tune, RefusesFeaturesWhoseSquaresOverflow) {
  Matrix<double> points = testing::RandomMatrix(kTuningRows, 2, 4);
  points(3, 1) = 1e200;
  const auto settings = Tune(MemoryFeatureSource(ingest::PoolFeatures(std::move(points))), FirstLabels(20), 1);
  EXPECT_FALSE(settings.ok());
  EXPECT_THAT(std::string(settings.status().message()), HasSubstr("too large"));
}

TEST(ShouldTuneAgain, IfTheLabelsHaveGrownByAThirdOrAClassIsNew) {
  const TunedSettings settings{.labels = 20, .classes = 2};
  EXPECT_FALSE(ShouldTuneAgain(settings, FirstLabels(25)));
  EXPECT_TRUE(ShouldTuneAgain(settings, FirstLabels(26)));
  std::vector<ClassIndex> labels = FirstLabels(21);
  EXPECT_FALSE(ShouldTuneAgain(settings, labels));
  labels[20] = 2;
  EXPECT_TRUE(ShouldTuneAgain(settings, labels));
  EXPECT_FALSE(ShouldTuneAgain(TunedSettings{}, FirstLabels(7))) << "too few to compare settings";
}

}  // namespace
}  // namespace fulcrum::pipeline
