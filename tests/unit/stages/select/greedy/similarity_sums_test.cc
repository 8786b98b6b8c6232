#include <numeric>

#include "gtest/gtest.h"
#include "stages/core/random.h"
#include "stages/select/greedy/streamed_greedy.h"
#include "tests/support/matrices.h"

namespace fulcrum::select {
namespace {

constexpr kernel::KernelFunction kSumsRbf{.type = kernel::KernelType::kRbf, .sigma = 2};
constexpr std::size_t kSumsSize = 1500;
constexpr double kFactor = 0.01;
// Far above the rounding of float32 kernel values.
constexpr double kMargin = 1e-4;

class SimilaritySumsTest : public ::testing::Test {
 protected:
  SimilaritySumsTest()
      : points_(testing::RandomMatrix(kSumsSize, 5, 1)),
        features_(points_.Clone()),
        rows_(kSumsSize),
        sums_(kSumsRbf, features_, rows_),
        scores_(kSumsSize, 0.0),
        present_(kSumsSize, 1) {
    std::iota(rows_.begin(), rows_.end(), RowIndex{0});
    for (std::size_t i = 0; i < 40; ++i) picks_.push_back(static_cast<RowIndex>(31 * i));
    for (const RowIndex pick : picks_) present_[pick] = 0;
  }

  /// The sum of a row's similarities to the first picks, from the definition.
  double NaiveSum(std::size_t row, std::size_t count) const {
    double sum = 0;
    for (std::size_t t = 0; t < count; ++t) {
      sum += testing::NaiveKernel(kSumsRbf, points_.view().Rows(row, 1), points_.view().Rows(picks_[t], 1))(0, 0);
    }
    return sum;
  }

  /// Gains that every rival stays below, but `winner`, who is above that of pick `beaten` alone.
  std::vector<double> GainsThatLoseTo(std::size_t winner, std::size_t beaten) const {
    std::vector<double> gains(picks_.size(), 2.0);
    gains[beaten] = 1 - kFactor * NaiveSum(winner, beaten) - kMargin;
    return gains;
  }

  void ExpectSumsOf(std::size_t count) const {
    for (const std::size_t row : {std::size_t{0}, std::size_t{511}, std::size_t{512}, kSumsSize - 1}) {
      EXPECT_NEAR(sums_.values()[row], NaiveSum(row, count), 1e-5) << row;
    }
  }

  Matrix<double> points_;
  kernel::DenseFeatures features_;
  RowList rows_, picks_;
  SimilaritySums sums_;
  std::vector<double> scores_;
  std::vector<std::uint8_t> present_;
};

TEST_F(SimilaritySumsTest, SumsOverManyPicks) {
  ASSERT_TRUE(sums_.Add(picks_).ok());
  ExpectSumsOf(picks_.size());
}

TEST_F(SimilaritySumsTest, AddsAllThatNoRivalWouldHaveBeaten) {
  const std::vector<double> gains(picks_.size(), 2.0);
  const auto added = sums_.AddUnbeaten(picks_, {present_, scores_, kFactor, gains});
  ASSERT_TRUE(added.ok()) << added.status();
  EXPECT_EQ(*added, picks_.size());
  ExpectSumsOf(picks_.size());
}

TEST_F(SimilaritySumsTest, StopsAtThePickThatARivalWouldHaveBeaten) {
  constexpr std::size_t kWinner = 1234, kBeaten = 17;
  const std::vector<double> gains = GainsThatLoseTo(kWinner, kBeaten);
  // Alone, so that no other can be above the same gain.
  std::fill(present_.begin(), present_.end(), std::uint8_t{0});
  present_[kWinner] = 1;
  const auto added = sums_.AddUnbeaten(picks_, {present_, scores_, kFactor, gains});
  ASSERT_TRUE(added.ok()) << added.status();
  EXPECT_EQ(*added, kBeaten);
  ExpectSumsOf(kBeaten);
}

TEST_F(SimilaritySumsTest, ACandidateWithoutRivalsBeatsNone) {
  constexpr std::size_t kWinner = 1234, kBeaten = 17;
  const std::vector<double> gains = GainsThatLoseTo(kWinner, kBeaten);
  std::fill(present_.begin(), present_.end(), std::uint8_t{0});
  const auto added = sums_.AddUnbeaten(picks_, {present_, scores_, kFactor, gains});
  ASSERT_TRUE(added.ok()) << added.status();
  EXPECT_EQ(*added, picks_.size());
}

TEST_F(SimilaritySumsTest, AHigherScoreLetsARivalWinEarlier) {
  constexpr std::size_t kWinner = 700, kBeaten = 30, kEarlier = 5;
  std::vector<double> gains = GainsThatLoseTo(kWinner, kBeaten);
  gains[kEarlier] = 1 - kFactor * NaiveSum(kWinner, kEarlier) + 0.5;
  std::fill(present_.begin(), present_.end(), std::uint8_t{0});
  present_[kWinner] = 1;
  scores_[kWinner] = 0.5 + kMargin;
  const auto added = sums_.AddUnbeaten(picks_, {present_, scores_, kFactor, gains});
  ASSERT_TRUE(added.ok()) << added.status();
  EXPECT_EQ(*added, kEarlier);
}

}  // namespace
}  // namespace fulcrum::select
