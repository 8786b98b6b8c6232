#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "stages/ingest/normalize.h"
#include "tests/support/matrices.h"

namespace fulcrum::ingest {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

Matrix<double> Column(const std::vector<double>& values) {
  Matrix<double> column(values.size(), 1);
  for (std::size_t row = 0; row < values.size(); ++row) column(row, 0) = values[row];
  return column;
}

TEST(QuantileColumns, NormalScoresDependOnRanksOnly) {
  const Matrix<double> plain = testing::RandomMatrix(200, 3, 1);
  Matrix<double> skewed = plain.Clone();
  for (std::size_t row = 0; row < 200; ++row) {
    for (double& value : skewed.row(row)) value = std::exp(5 * value);
  }
  const QuantileColumns of_plain(QuantileColumns::Kind::kNormal, plain.view());
  const QuantileColumns of_skewed(QuantileColumns::Kind::kNormal, skewed.view());
  const Matrix<double> a = of_plain.Replace(plain.view()), b = of_skewed.Replace(skewed.view());
  for (std::size_t row = 0; row < 200; ++row) EXPECT_THAT(a.row(row), Pointwise(DoubleNear(1e-12), b.row(row)));
  double sum = 0, squares = 0;
  for (std::size_t row = 0; row < 200; ++row) {
    sum += a(row, 0);
    squares += a(row, 0) * a(row, 0);
  }
  EXPECT_NEAR(sum, 0, 1e-9);
  EXPECT_NEAR(squares / 200, 1, 1e-9);
}

TEST(QuantileColumns, InterpolatesBetweenKnownValuesAndStaysWithinThem) {
  const Matrix<double> known = Column({0, 0, 10, 20});
  const QuantileColumns columns(QuantileColumns::Kind::kNormal, known.view());
  const Matrix<double> at = columns.Replace(known.view());
  EXPECT_EQ(at(0, 0), at(1, 0)) << "ties";
  const Matrix<double> other = columns.Replace(Column({-1e9, 5, 15, 1e9}).view());
  EXPECT_EQ(other(0, 0), at(0, 0));
  EXPECT_NEAR(other(1, 0), (at(0, 0) + at(2, 0)) / 2, 1e-12);
  EXPECT_NEAR(other(2, 0), (at(2, 0) + at(3, 0)) / 2, 1e-12);
  EXPECT_EQ(other(3, 0), at(3, 0));
}

TEST(QuantileColumns, BinsMakeDistancesOfRanks) {
  std::vector<double> values;
  for (int i = 0; i < 1600; ++i) values.push_back(std::exp(i * 0.01));
  const Matrix<double> rows = Column(values);
  const Matrix<double> bins = QuantileColumns(QuantileColumns::Kind::kBins, rows.view()).Replace(rows.view());
  ASSERT_EQ(bins.cols(), 15u);
  const double scale = bins(1599, 0);
  const auto thresholds_between = [&](std::size_t a, std::size_t b) {
    double squared = 0;
    for (std::size_t col = 0; col < 15; ++col) squared += std::pow(bins(a, col) - bins(b, col), 2);
    return std::round(squared / (scale * scale));
  };
  EXPECT_EQ(thresholds_between(0, 99), 0);
  EXPECT_EQ(thresholds_between(99, 100), 1);
  EXPECT_EQ(thresholds_between(250, 850), 6);
  EXPECT_EQ(thresholds_between(0, 1599), 15);
}

TEST(QuantileColumns, EveryValueIsAThresholdIfThereAreFewAndConstantColumnsAreZero) {
  Matrix<double> rows(4, 2);
  for (std::size_t row = 0; row < 4; ++row) {
    rows(row, 0) = row < 2 ? 5 : static_cast<double>(10 * row);
    rows(row, 1) = 7;
  }
  for (const auto kind : {QuantileColumns::Kind::kBins, QuantileColumns::Kind::kNormal}) {
    const Matrix<double> replaced = QuantileColumns(kind, rows.view()).Replace(rows.view());
    for (std::size_t row = 0; row < 4; ++row) EXPECT_EQ(replaced(row, replaced.cols() - 1), 0);
  }
  const Matrix<double> bins = QuantileColumns(QuantileColumns::Kind::kBins, rows.view()).Replace(rows.view());
  const double scale = 1 / std::sqrt(0.5 * 0.5 + 0.75 * 0.25);
  EXPECT_THAT(bins.row(1), ElementsAre(0, 0, 0));
  EXPECT_THAT(bins.row(2), ElementsAre(scale, 0, 0));
  EXPECT_THAT(bins.row(3), ElementsAre(scale, scale, 0));
}

TEST(QuantileColumns, AreStepsOfANormalizer) {
  const Matrix<double> rows = testing::RandomMatrix(100, 2, 3);
  for (const char* text : {"quantile", "bins", "bins,unit"}) {
    const auto steps = ParseNormalization(text);
    ASSERT_TRUE(steps.ok()) << steps.status();
    const auto fitted = Normalizer::Fit(*steps, rows.view());
    ASSERT_TRUE(fitted.ok()) << fitted.status();
    EXPECT_TRUE(fitted->adds_columns());
    PoolFeatures applied(rows.Clone()), in_place(rows.Clone());
    fitted->Apply(applied);
    ASSERT_TRUE(Normalizer::FitInPlace(*steps, in_place).ok());
    EXPECT_EQ(applied.cols(), std::string(text) == "quantile" ? 2u : 30u);
    for (std::size_t row = 0; row < 100; ++row) {
      EXPECT_THAT(applied.dense().row(row), Pointwise(DoubleNear(0), in_place.dense().row(row))) << text;
    }
  }
  for (const char* text : {"quantile,bins", "zscore,bins", "bins,robust"}) {
    EXPECT_EQ(ParseNormalization(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

/// From the definition: the adjusted share of the variance between the classes, by column.
std::vector<double> NaiveRelevance(ConstMatrixView rows, std::span<const ClassIndex> classes, std::size_t count) {
  std::vector<double> relevance;
  const auto all = static_cast<double>(rows.rows());
  for (std::size_t col = 0; col < rows.cols(); ++col) {
    double mean = 0, total = 0, within = 0;
    for (std::size_t row = 0; row < rows.rows(); ++row) mean += rows(row, col) / all;
    for (std::size_t row = 0; row < rows.rows(); ++row) total += std::pow(rows(row, col) - mean, 2);
    for (std::size_t k = 0; k < count; ++k) {
      double of_class = 0, members = 0;
      for (std::size_t row = 0; row < rows.rows(); ++row) {
        if (classes[row] != static_cast<ClassIndex>(k)) continue;
        of_class += rows(row, col);
        members += 1;
      }
      for (std::size_t row = 0; row < rows.rows(); ++row) {
        if (classes[row] == static_cast<ClassIndex>(k)) within += std::pow(rows(row, col) - of_class / members, 2);
      }
    }
    const double adjusted = total < 1e-20 ? 0 : 1 - within / total * (all - 1) / (all - static_cast<double>(count));
    relevance.push_back(std::max(adjusted, 0.0));
  }
  return relevance;
}

TEST(RelevanceOf, IsTheAdjustedShareOfTheVarianceBetweenTheClasses) {
  Matrix<double> rows = testing::RandomMatrix(60, 5, 3);
  std::vector<ClassIndex> classes;
  for (std::size_t row = 0; row < 60; ++row) {
    classes.push_back(static_cast<ClassIndex>(row % 3));
    rows(row, 1) += 2 * static_cast<double>(row % 3);
    rows(row, 2) += row % 3 == 1 ? 0.8 : 0;
    rows(row, 4) = 7;
  }
  const std::vector<double> expected = NaiveRelevance(rows.view(), classes, 3);
  const double most = *std::ranges::max_element(expected);
  const std::string digits = RelevanceOf(rows.view(), classes, {});
  ASSERT_EQ(digits.size(), 5u);
  for (std::size_t col = 0; col < 5; ++col) {
    EXPECT_NEAR(RelevanceFactor(digits[col]), std::sqrt(0.05 + 0.95 * expected[col] / most), 0.5001 / 15) << col;
  }
  EXPECT_EQ(digits[1], 'f');
  EXPECT_EQ(digits[4], '3') << "a constant column says nothing";
  // Rows of weight zero are as if they were not there; the scale of the weights does not matter.
  std::vector<double> weights(60, 2.0);
  for (std::size_t row = 40; row < 60; ++row) weights[row] = 0;
  EXPECT_EQ(RelevanceOf(rows.view(), classes, weights),
            RelevanceOf(rows.view().Rows(0, 40), std::span(classes).first(40), {}));
  // Labels of one class say nothing about any column.
  EXPECT_EQ(RelevanceOf(rows.view(), std::vector<ClassIndex>(60, 1), {}), "fffff");
}

TEST(RelevanceOf, IsAFactorOfTheColumnsOfBins) {
  const Matrix<double> rows = testing::RandomMatrix(100, 2, 3);
  const std::string digits = "f00000000000003" + std::string(15, '9');
  PoolFeatures plain(rows.Clone()), weighed(rows.Clone());
  const auto steps = ParseNormalization("bins@" + digits);
  ASSERT_TRUE(steps.ok()) << steps.status();
  ASSERT_TRUE(Normalizer::FitInPlace(*ParseNormalization("bins"), plain).ok());
  ASSERT_TRUE(Normalizer::FitInPlace(*steps, weighed).ok());
  for (std::size_t row = 0; row < 100; ++row) {
    for (std::size_t col = 0; col < 30; ++col) {
      EXPECT_DOUBLE_EQ(weighed.dense()(row, col), plain.dense()(row, col) * RelevanceFactor(digits[col]));
    }
  }
  const auto other = Normalizer::Fit(*ParseNormalization("bins@ff"), rows.view());
  EXPECT_EQ(other.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(other.status().message()), ::testing::HasSubstr("30 columns here, and 2 digits"));
  for (const char* text : {"bins@", "bins@fg", "zscore@ff", "bins@ff@ff", "bins@F"}) {
    EXPECT_EQ(ParseNormalization(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace fulcrum::ingest
