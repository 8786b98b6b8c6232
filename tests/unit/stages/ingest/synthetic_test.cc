#include "stages/ingest/synthetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace fulcrum::ingest {
namespace {

struct Moments {
  double share = 0;  // of the class among all rows
  double mean = 0;
  double variance = 0;
};

Moments MomentsOf(const SyntheticSpec& spec, int label, std::size_t rows, std::size_t dims) {
  double count = 0, sum = 0, squares = 0;
  std::vector<double> features(dims);
  for (std::size_t row = 0; row < rows; ++row) {
    if (GenerateRow(spec, row, features) != label) continue;
    ++count;
    for (double value : features) {
      sum += value;
      squares += value * value;
    }
  }
  const double values = count * static_cast<double>(dims);
  const double mean = sum / values;
  return {count / static_cast<double>(rows), mean, squares / values - mean * mean};
}

// 20,000 rows of 20 dimensions: the standard error of a mean is below 0.005, of a variance below 0.02.
constexpr std::size_t kSyntheticRows = 20000, kDims = 20;
constexpr double kNear = 0.02, kNearVariance = 0.06;

TEST(Synthetic, TwonormHasBreimansMoments) {
  const SyntheticSpec spec{SyntheticProblem::kTwonorm, BreimanMeanFactor(SyntheticProblem::kTwonorm), 1};
  const double a = 2 / std::sqrt(20.0);
  for (int label : {1, -1}) {
    const Moments moments = MomentsOf(spec, label, kSyntheticRows, kDims);
    EXPECT_NEAR(moments.share, 0.5, kNear);
    EXPECT_NEAR(moments.mean, label * a, kNear);
    EXPECT_NEAR(moments.variance, 1, kNearVariance);
  }
}

TEST(Synthetic, RingnormHasBreimansMoments) {
  const SyntheticSpec spec{SyntheticProblem::kRingnorm, BreimanMeanFactor(SyntheticProblem::kRingnorm), 1};
  const Moments wide = MomentsOf(spec, 1, kSyntheticRows, kDims);
  EXPECT_NEAR(wide.share, 0.5, kNear);
  EXPECT_NEAR(wide.mean, 0, kNear);
  EXPECT_NEAR(wide.variance, 4, kNearVariance);
  const Moments narrow = MomentsOf(spec, -1, kSyntheticRows, kDims);
  EXPECT_NEAR(narrow.mean, 1 / std::sqrt(20.0), kNear);
  EXPECT_NEAR(narrow.variance, 1, kNearVariance);
}

TEST(Synthetic, TheMeanScalesWithTheDimensions) {
  const SyntheticSpec spec{SyntheticProblem::kTwonorm, 2, 1};
  EXPECT_NEAR(MomentsOf(spec, 1, kSyntheticRows, 4).mean, 1, kNear);
}

TEST(Synthetic, ARowDependsOnSeedAndNumberOnly) {
  const SyntheticSpec spec{SyntheticProblem::kRingnorm, 1, 42};
  std::vector<double> first(5), again(5), other_row(5), other_seed(5);
  const int label = GenerateRow(spec, 1000, first);
  GenerateRow(spec, 3, again);
  EXPECT_EQ(GenerateRow(spec, 1000, again), label);
  EXPECT_EQ(first, again);
  GenerateRow(spec, 1001, other_row);
  EXPECT_NE(first, other_row);
  GenerateRow({SyntheticProblem::kRingnorm, 1, 43}, 1000, other_seed);
  EXPECT_NE(first, other_seed);
}

TEST(Synthetic, UnknownProblemsAreRefused) {
  EXPECT_EQ(*ParseSyntheticProblem("ringnorm"), SyntheticProblem::kRingnorm);
  EXPECT_EQ(ParseSyntheticProblem("threenorm").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Synthetic, EveryProblemHasItsClassesAndRowsThatDependOnSeedAndNumberAlone) {
  const std::map<std::string, std::size_t> classes = {{"many-classes", 20}, {"words", 4},    {"embeddings", 6},
                                                      {"duplicates", 3},    {"outliers", 3}, {"scales", 3},
                                                      {"digits", 10}};
  for (const SyntheticEntry& entry : SyntheticProblems()) {
    const SyntheticSpec spec{*ParseSyntheticProblem(entry.name), 2, 7};
    std::set<int> labels;
    std::vector<double> first(12), again(12), other(12);
    for (std::uint64_t row = 0; row < 500; ++row) {
      labels.insert(GenerateRow(spec, row, first));
      for (const double value : first) ASSERT_TRUE(std::isfinite(value)) << entry.name;
    }
    const auto expected = classes.find(entry.name);
    EXPECT_EQ(labels.size(), expected == classes.end() ? 2u : expected->second) << entry.name;
    EXPECT_EQ(GenerateRow(spec, 3, first), GenerateRow(spec, 3, again));
    EXPECT_EQ(first, again) << entry.name;
    GenerateRow({spec.problem, 2, 8}, 3, other);
    EXPECT_NE(first, other) << entry.name;
  }
  EXPECT_FALSE(ParseSyntheticProblem("circle").ok());
}

TEST(Synthetic, DigitsCanBeToldApartAndShown) {
  constexpr std::size_t kPixels = 256, kTrain = 600, kTest = 200;
  const SyntheticSpec spec{SyntheticProblem::kDigits, 2, 1};
  std::vector<std::vector<double>> means(10, std::vector<double>(kPixels, 0));
  std::vector<double> counts(10, 0), pixels(kPixels);
  for (std::uint64_t row = 0; row < kTrain; ++row) {
    const auto digit = static_cast<std::size_t>(GenerateRow(spec, row, pixels));
    counts[digit] += 1;
    for (std::size_t i = 0; i < kPixels; ++i) means[digit][i] += pixels[i];
  }
  std::size_t right = 0;
  for (std::uint64_t row = kTrain; row < kTrain + kTest; ++row) {
    const auto digit = static_cast<std::size_t>(GenerateRow(spec, row, pixels));
    std::vector<double> distances(10, 0);
    for (std::size_t d = 0; d < 10; ++d) {
      for (std::size_t i = 0; i < kPixels; ++i) {
        const double difference = pixels[i] - means[d][i] / counts[d];
        distances[d] += difference * difference;
      }
    }
    const auto nearest = std::min_element(distances.begin(), distances.end()) - distances.begin();
    right += static_cast<std::size_t>(nearest) == digit ? 1 : 0;
  }
  EXPECT_GT(right, kTest * 7 / 10);
  EXPECT_LT(right, kTest);
  // A browser decodes it in tests/browser/payload_test.py.
  EXPECT_EQ(ImageUrl(pixels).rfind("data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAABAAAAAQ", 0), 0u);
}

TEST(Synthetic, ImbalanceHasATenthOfTheRowsInItsRareClass) {
  const SyntheticSpec spec{*ParseSyntheticProblem("imbalance"), 2, 1};
  std::vector<double> features(5);
  int rare = 0;
  for (std::uint64_t row = 0; row < 10'000; ++row) rare += GenerateRow(spec, row, features) == 1 ? 1 : 0;
  EXPECT_NEAR(rare, 1000, 120);
}

}  // namespace
}  // namespace fulcrum::ingest
