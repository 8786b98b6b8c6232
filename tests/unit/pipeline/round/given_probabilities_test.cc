// Rounds with the class probabilities of a model of the user's own.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pipeline/round/round.h"
#include "stages/select/strategy.h"
#include "tests/support/matrices.h"

namespace fulcrum::pipeline {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kGivenRows = 300, kClasses = 3, kLabeled = 12, kBatch = 7;

class GivenProbabilitiesTest : public ::testing::Test {
 protected:
  GivenProbabilitiesTest() : labels_(kGivenRows, kUnlabeled) {
    const Matrix<double> noise = testing::RandomMatrix(kGivenRows, kClasses, 5);
    for (std::size_t row = 0; row < kGivenRows; ++row) {
      if (row < kLabeled) labels_[row] = static_cast<ClassIndex>(row % kClasses);
      double weights[kClasses], sum = 0;
      for (std::size_t c = 0; c < kClasses; ++c) sum += weights[c] = std::exp(2 * noise(row, c));
      for (const double weight : weights) probabilities_.push_back(static_cast<float>(weight / sum));
    }
  }
  absl::StatusOr<RoundResult> Run(const std::string& strategy) {
    RoundSpec spec;
    spec.strategy = strategy;
    spec.batch = kBatch;
    spec.leverage_kernel.sigma = 3;
    RoundRunner runner(spec, features_);
    return runner.Run(
        {.class_count = kClasses, .labels = labels_, .given_probabilities = std::span<const float>(probabilities_)});
  }
  /// The unlabeled rows with the largest scores of their sorted probabilities, largest first.
  template <typename Score>
  RowList Best(const Score& score) const {
    RowList rows;
    std::vector<double> scores(kGivenRows);
    for (std::size_t row = kLabeled; row < kGivenRows; ++row) {
      rows.push_back(static_cast<RowIndex>(row));
      std::vector<double> own(&probabilities_[row * kClasses], &probabilities_[row * kClasses] + kClasses);
      std::sort(own.rbegin(), own.rend());
      scores[row] = score(own);
    }
    std::stable_sort(rows.begin(), rows.end(), [&](RowIndex a, RowIndex b) { return scores[a] > scores[b]; });
    rows.resize(kBatch);
    return rows;
  }
  static RowList RowsOf(const RoundResult& result) {
    RowList rows;
    for (const select::Pick& pick : result.selection.picks) rows.push_back(pick.row);
    return rows;
  }

  kernel::DenseFeatures features_{testing::RandomMatrix(kGivenRows, 4, 1)};
  std::vector<ClassIndex> labels_;
  std::vector<float> probabilities_;
};

TEST_F(GivenProbabilitiesTest, UncertaintyStrategiesAreFunctionsOfThem) {
  const auto margin = Run("margin");
  ASSERT_TRUE(margin.ok()) << margin.status();
  EXPECT_EQ(RowsOf(*margin), Best([](const auto& p) { return p[1] - p[0]; }));
  EXPECT_FALSE(margin->model) << "no classifier of our own is trained";
  EXPECT_EQ(RowsOf(*Run("least-confident")), Best([](const auto& p) { return -p[0]; }));
  EXPECT_EQ(RowsOf(*Run("entropy")), Best([](const auto& p) {
              double entropy = 0;
              for (const double value : p) entropy -= value * std::log(value);
              return entropy;
            }));
}

TEST_F(GivenProbabilitiesTest, TheMostProbableClassIsThePredictionExceptOfLabeledRows) {
  const auto result = Run("dbalevs");
  ASSERT_TRUE(result.ok()) << result.status();
  for (std::size_t row = 0; row < kGivenRows; ++row) {
    const float* const own = &probabilities_[row * kClasses];
    const auto best = static_cast<ClassIndex>(std::max_element(own, own + kClasses) - own);
    EXPECT_EQ(result->predicted[row], row < kLabeled ? labels_[row] : best);
  }
}

TEST_F(GivenProbabilitiesTest, EveryStrategyUsesThemOrIsRefusedByName) {
  for (const select::StrategyEntry& entry : select::Strategies()) {
    const std::string name(entry.name);
    SCOPED_TRACE(name);
    const absl::Status uses = CheckUsesPredictions(name, /*may_ignore=*/false);
    if (!uses.ok()) {
      EXPECT_EQ(uses.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(uses.message()), HasSubstr("'" + name + "'"));
      continue;
    }
    const auto result = Run(name);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->selection.picks.size(), kBatch);
    EXPECT_FALSE(result->svm.has_value());
    // It keeps the classes even by the predictions, and these classes are.
    if (name == "hybrid") continue;
    const RowList before = RowsOf(*result);
    // Other probabilities, other picks.
    std::vector<float> kept = probabilities_;
    std::rotate(probabilities_.begin(), probabilities_.begin() + 31 * kClasses, probabilities_.end());
    EXPECT_NE(RowsOf(*Run(name)), before);
    probabilities_ = std::move(kept);
  }
  EXPECT_TRUE(CheckUsesPredictions("random", /*may_ignore=*/true).ok());
  EXPECT_FALSE(CheckUsesPredictions("committee", /*may_ignore=*/true).ok());
}

}  // namespace
}  // namespace fulcrum::pipeline
