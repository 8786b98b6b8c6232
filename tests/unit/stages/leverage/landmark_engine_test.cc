#include "stages/leverage/landmark_engine.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "gtest/gtest.h"
#include "stages/leverage/leverage_scores.h"
#include "stages/linalg/blas.h"
#include "stages/linalg/top_eigen.h"
#include "tbb/global_control.h"
#include "tests/support/matrices.h"

namespace fulcrum::leverage {
namespace {

constexpr kernel::KernelFunction kLandmarkRbf{.type = kernel::KernelType::kRbf, .sigma = 4};
constexpr kernel::KernelFunction kNarrow{.type = kernel::KernelType::kRbf, .sigma = 1};
constexpr std::size_t kLandmarkRows = 1500;

/// Inner products that no features could have: the landmarks 0 to 19 see nothing wrong, but the rows between each other
/// are less similar than to anything else, so that a refined vector has a negative square.
class NoInnerProduct final : public kernel::InnerProductFeatures {
 public:
  explicit NoInnerProduct(std::size_t rows) { squared_norms_.assign(rows, 1.0); }
  std::size_t dims() const override { return 1; }
  void WriteInnerProducts(std::span<const RowIndex> a, std::span<const RowIndex> b,
                          MutableMatrixView out) const override {
    for (std::size_t i = 0; i < a.size(); ++i) {
      for (std::size_t j = 0; j < b.size(); ++j) {
        out(i, j) = a[i] == b[j] ? 1.0 : (a[i] < kSeeing) != (b[j] < kSeeing) ? 0.2 : a[i] < kSeeing ? 0.05 : -0.5;
      }
    }
  }
  static constexpr RowIndex kSeeing = 20;
};

TEST(LandmarkEngineFallback, ScoresAreUnrefinedAndSaySoIfRefiningFails) {
  const NoInnerProduct features(400);
  RowList rows(400), landmarks(NoInnerProduct::kSeeing);
  std::iota(rows.begin(), rows.end(), RowIndex{0});
  std::iota(landmarks.begin(), landmarks.end(), RowIndex{0});
  // Not drawn again: as many as are wanted, and one of them is among the last rows.
  landmarks.push_back(399);
  const kernel::KernelFunction linear{.type = kernel::KernelType::kLinear};
  LandmarkEngine refining(linear, features), plain(linear, features);
  const LandmarkRequest request{.tau = 0.02, .landmarks = landmarks.size(), .chosen = landmarks};
  LandmarkRequest refined = request;
  refined.refine = true;
  const auto scored = refining.Score(rows, refined), expected = plain.Score(rows, request);
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_TRUE(scored.ok()) << scored.status();
  EXPECT_EQ(scored->scores, expected->scores);
  EXPECT_EQ(scored->vectors_refined, 0u);
  EXPECT_NE(scored->reason.find("not refined"), std::string::npos) << scored->reason;
}

class LandmarkEngineTest : public ::testing::Test {
 protected:
  /// `count` rows of the pool, every other one from `first` on.
  static RowList Rows(std::size_t count, std::size_t first = 0) {
    RowList rows(count);
    for (std::size_t i = 0; i < count; ++i) rows[i] = static_cast<RowIndex>(first + 2 * i);
    return rows;
  }
  static RowList RowsAfterAHundredLeftAndAHundredEntered() {
    RowList rows = Rows(kLandmarkRows - 100, 200);
    for (const RowIndex row : Rows(100, 1)) rows.push_back(row);
    std::sort(rows.begin(), rows.end());
    return rows;
  }
  /// None is more than another: eigenvalues are nearly equal, and the cut of tau falls among them.
  static kernel::DenseFeatures RowsOnASphere() {
    Matrix<double> points = testing::RandomMatrix(2 * kLandmarkRows + 400, 12, 3);
    for (std::size_t i = 0; i < points.rows(); ++i) {
      const double length = linalg::Norm(points.row(i));
      for (double& value : points.row(i)) value /= length;
    }
    return kernel::DenseFeatures(std::move(points));
  }
  LeverageScores Exact(std::span<const RowIndex> rows) const {
    Matrix<double> own(rows.size(), points_.cols());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::copy_n(points_.row(rows[i]).data(), points_.cols(), own.row(i).data());
    }
    const Matrix<double> kernel = testing::NaiveKernel(kLandmarkRbf, own.view(), own.view());
    return *ComputeLeverage(linalg::DenseSymmetricOperator(kernel.view()), {.tau = 0.6});
  }
  LandmarkScores Score(LandmarkEngine& engine, std::span<const RowIndex> rows, std::size_t landmarks) const {
    auto scores = engine.Score(rows, {.tau = 0.6, .landmarks = landmarks});
    EXPECT_TRUE(scores.ok()) << scores.status();
    return *std::move(scores);
  }
  static double LargestDifference(const std::vector<double>& a, const std::vector<double>& b) {
    double largest = 0;
    for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
    return largest;
  }

  Matrix<double> points_ = testing::RandomMatrix(2 * kLandmarkRows + 400, 5, 1);
  kernel::DenseFeatures features_{points_.Clone()};
};

TEST_F(LandmarkEngineTest, ComesNearTheExactScoresWithAThirdOfTheRows) {
  const RowList rows = Rows(kLandmarkRows);
  LandmarkEngine engine(kLandmarkRbf, features_);
  const LandmarkScores scored = Score(engine, rows, 500);
  const LeverageScores exact = Exact(rows);
  EXPECT_EQ(scored.rank, exact.eigen.rank);
  EXPECT_NEAR(std::accumulate(scored.scores.begin(), scored.scores.end(), 0.0), static_cast<double>(scored.rank),
              1e-3 * static_cast<double>(scored.rank));
  const double mean = static_cast<double>(scored.rank) / kLandmarkRows;
  EXPECT_LT(LargestDifference(scored.scores, exact.scores), 0.05 * mean);
  EXPECT_NEAR(scored.trace_share, exact.eigen.trace_share, 1e-3);
  EXPECT_GT(scored.quality.captured_share, 0.95);
  EXPECT_LT(scored.quality.residual, 1e-3);
  EXPECT_GT(scored.quality.collected_share, 0.99);
  EXPECT_FALSE(scored.warm);
}

TEST_F(LandmarkEngineTest, FewLandmarksSayThatTheyAreNotGood) {
  const RowList rows = Rows(kLandmarkRows);
  LandmarkEngine many(kLandmarkRbf, features_), few(kLandmarkRbf, features_);
  const LandmarkScores good = Score(many, rows, 500), poor = Score(few, rows, 12);
  EXPECT_LT(poor.quality.captured_share, good.quality.captured_share);
  EXPECT_GT(poor.quality.residual, 10 * good.quality.residual);
  EXPECT_LT(poor.quality.collected_share, good.quality.collected_share);
}

TEST_F(LandmarkEngineTest, AnUpdateEqualsASumOverAllRows) {
  LandmarkEngine updated(kLandmarkRbf, features_);
  Score(updated, Rows(kLandmarkRows), 400);
  const RowList rows = RowsAfterAHundredLeftAndAHundredEntered();
  const LandmarkScores second = Score(updated, rows, 400);
  EXPECT_TRUE(second.warm);
  EXPECT_EQ(second.rows_summed, 200u);
  const LeverageScores exact = Exact(rows);
  EXPECT_EQ(second.rank, exact.eigen.rank);
  EXPECT_LT(LargestDifference(second.scores, exact.scores), 0.08 * static_cast<double>(second.rank) / kLandmarkRows);
}

TEST_F(LandmarkEngineTest, LandmarksDoNotFlatterThemselves) {
  // A tenth of the rows are landmarks.
  const kernel::DenseFeatures features = RowsOnASphere();
  RowList rows(kLandmarkRows);
  std::iota(rows.begin(), rows.end(), RowIndex{0});
  LandmarkEngine engine(kNarrow, features);
  const auto scored = engine.Score(rows, {.tau = 0.5, .landmarks = kLandmarkRows / 10});
  ASSERT_TRUE(scored.ok()) << scored.status();
  std::vector<std::size_t> order(kLandmarkRows);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) { return scored->scores[a] > scored->scores[b]; });
  const auto landmarks = std::count_if(order.begin(), order.begin() + 100, [&](std::size_t row) {
    return std::ranges::binary_search(engine.landmarks(), static_cast<RowIndex>(row));
  });
  EXPECT_LT(landmarks, 30) << "of the hundred best; ten if nothing drew them there";
}

TEST_F(LandmarkEngineTest, RefiningMakesFewLandmarksNearlyExactInEveryRound) {
  LandmarkEngine plain(kLandmarkRbf, features_), refined(kLandmarkRbf, features_);
  for (const RowList& rows : {Rows(kLandmarkRows), RowsAfterAHundredLeftAndAHundredEntered()}) {
    const LandmarkScores rough = Score(plain, rows, 60);
    const auto fine = refined.Score(rows, {.tau = 0.6, .landmarks = 60, .refine = true, .bounds_suffice = true});
    ASSERT_TRUE(fine.ok()) << fine.status();
    const LeverageScores exact = Exact(rows);
    EXPECT_EQ(fine->rank, exact.eigen.rank);
    EXPECT_LT(10 * LargestDifference(fine->scores, exact.scores), LargestDifference(rough.scores, exact.scores));
    EXPECT_LT(5 * fine->quality.residual, rough.quality.residual);
    EXPECT_GE(fine->quality.collected_share, rough.quality.collected_share);
    EXPECT_EQ(fine->rows_scored, rows.size());
    EXPECT_EQ(fine->slack, 0);
    EXPECT_GT(fine->vectors_refined, fine->rank);
    EXPECT_NE(fine->reason.find("refined by a product with the whole kernel"), std::string::npos) << fine->reason;
    EXPECT_EQ(rough.reason.find("refined"), std::string::npos) << rough.reason;
  }
}

TEST_F(LandmarkEngineTest, RefinedScoresDoNotDependOnTheRoundsBefore) {
  const kernel::DenseFeatures features = RowsOnASphere();
  LandmarkEngine always(kNarrow, features), restarted(kNarrow, features);
  const LandmarkRequest request{.tau = 0.5, .landmarks = 400, .refine = true};
  ASSERT_TRUE(always.Score(Rows(kLandmarkRows), request).ok());
  LandmarkRequest recalling = request;
  recalling.chosen = always.landmarks();
  const RowList rows = RowsAfterAHundredLeftAndAHundredEntered();
  const auto expected = always.Score(rows, request), again = restarted.Score(rows, recalling);
  ASSERT_TRUE(expected.ok() && again.ok()) << expected.status() << again.status();
  ASSERT_TRUE(expected->warm);
  ASSERT_FALSE(again->warm);
  EXPECT_EQ(again->vectors_refined, expected->vectors_refined);
  EXPECT_LT(LargestDifference(again->scores, expected->scores),
            1e-5 * static_cast<double>(expected->rank) / kLandmarkRows);
}

TEST_F(LandmarkEngineTest, WhatCannotBeRefinedIsLeftAsLandmarksShowIt) {
  // Nearly the identity: half of its trace takes half of its directions.
  const kernel::KernelFunction narrow{.type = kernel::KernelType::kRbf, .sigma = 0.2};
  LandmarkEngine engine(narrow, features_), plain(narrow, features_);
  const LandmarkRequest request{.tau = 0.5, .landmarks = 500};
  LandmarkRequest refining = request;
  refining.refine = true;
  const auto scored = engine.Score(Rows(600), refining), expected = plain.Score(Rows(600), request);
  ASSERT_TRUE(scored.ok() && expected.ok()) << scored.status() << expected.status();
  EXPECT_EQ(scored->vectors_refined, 0u);
  EXPECT_EQ(scored->scores, expected->scores);
}

TEST_F(LandmarkEngineTest, ScoresOnlyNewRowsIfTheOthersCannotHaveMoved) {
  LandmarkEngine engine(kLandmarkRbf, features_);
  const RowList rows = Rows(kLandmarkRows);
  const LandmarkScores first = Score(engine, rows, 300);
  EXPECT_EQ(first.rows_scored, kLandmarkRows);
  const LandmarkScores same = Score(engine, rows, 300);
  EXPECT_EQ(same.rows_scored, 0u) << "nothing changed, so nothing can have moved";
  EXPECT_EQ(same.scores, first.scores);
  EXPECT_EQ(same.quality.residual, first.quality.residual);
  EXPECT_NE(same.reason.find("cannot have moved"), std::string::npos) << same.reason;
  // A seventh of the class leaves: bounds prove nothing any more.
  const LandmarkScores other = Score(engine, Rows(kLandmarkRows - 200), 300);
  EXPECT_TRUE(other.warm);
  EXPECT_EQ(other.rows_scored, kLandmarkRows - 200);
}

TEST_F(LandmarkEngineTest, LandmarksAreDrawnAnewIfManyHaveLeftTheClass) {
  LandmarkEngine engine(kLandmarkRbf, features_);
  Score(engine, Rows(kLandmarkRows), 300);
  const RowList rows = Rows(kLandmarkRows - 500);
  const LandmarkScores second = Score(engine, rows, 300);
  EXPECT_FALSE(second.warm);
  EXPECT_EQ(engine.landmarks().size(), 300u);
  for (const RowIndex landmark : engine.landmarks()) EXPECT_TRUE(std::ranges::binary_search(rows, landmark));
  LandmarkEngine afresh(kLandmarkRbf, features_);
  EXPECT_EQ(Score(afresh, rows, 300).scores, second.scores) << "nothing of the first round counts any more";
}

TEST_F(LandmarkEngineTest, IfBoundsSufficeTheyHoldForEveryRow) {
  LandmarkEngine engine(kLandmarkRbf, features_);
  Score(engine, Rows(kLandmarkRows), 300);
  const RowList rows = RowsAfterAHundredLeftAndAHundredEntered();
  const auto bounded = engine.Score(rows, {.tau = 0.6, .landmarks = 300, .bounds_suffice = true});
  ASSERT_TRUE(bounded.ok()) << bounded.status();
  EXPECT_EQ(bounded->rows_scored, 100u) << "those who entered";
  EXPECT_GT(bounded->slack, 0);
  const RowList some(rows.begin() + 50, rows.begin() + 60);
  const std::vector<double> of_some = engine.Rescore(some);
  const std::vector<double> now = engine.Rescore(rows);
  EXPECT_LE(LargestDifference(bounded->scores, now), bounded->slack);
  EXPECT_GT(LargestDifference(bounded->scores, now), 1e-5) << "there is something to bound";
  EXPECT_LT(LargestDifference(of_some, std::vector<double>(now.begin() + 50, now.begin() + 60)), 1e-6);
  // All were looked at, so that the next round begins with them.
  const LandmarkScores again = Score(engine, rows, 300);
  EXPECT_EQ(again.scores, now);
}

TEST_F(LandmarkEngineTest, APartOfTheRowsIsSummedIfTheyAreMany) {
  const RowList rows = Rows(kLandmarkRows);
  LandmarkEngine whole(kLandmarkRbf, features_), part(kLandmarkRbf, features_);
  const LandmarkScores of_all = Score(whole, rows, 300);
  const LandmarkRequest half{.tau = 0.6, .landmarks = 300, .most_summed = 1000};
  const auto of_part = part.Score(rows, half);
  ASSERT_TRUE(of_part.ok()) << of_part.status();
  EXPECT_NEAR(static_cast<double>(of_part->rows_summed), kLandmarkRows / 2.0, kLandmarkRows / 10.0);
  EXPECT_EQ(of_part->rows_scored, kLandmarkRows);
  EXPECT_NEAR(of_part->quality.captured_share, of_all.quality.captured_share, 0.02);
  EXPECT_NEAR(std::accumulate(of_part->scores.begin(), of_part->scores.end(), 0.0), static_cast<double>(of_part->rank),
              0.05 * static_cast<double>(of_part->rank));
  // Rows that stay are summed as before, so that only the changes are looked at.
  const auto later = part.Score(Rows(kLandmarkRows - 100, 200), half);
  ASSERT_TRUE(later.ok()) << later.status();
  EXPECT_TRUE(later->warm);
  EXPECT_LT(later->rows_summed, 100u);
}

TEST_F(LandmarkEngineTest, LandmarksStayUntilTheClassIsTwiceWhatTheyWereDrawnFrom) {
  const RowList all = Rows(kLandmarkRows);
  const std::span<const RowIndex> half = std::span(all).first(kLandmarkRows / 2);
  LandmarkEngine engine(kLandmarkRbf, features_), restarted(kLandmarkRbf, features_);
  Score(engine, std::span(half).first(kLandmarkRows / 3), 100);
  const RowList drawn(engine.landmarks().begin(), engine.landmarks().end());
  Score(engine, half, 100);
  EXPECT_EQ(RowList(engine.landmarks().begin(), engine.landmarks().end()), drawn);
  const LandmarkScores of_all = Score(engine, all, 100);
  EXPECT_NE(RowList(engine.landmarks().begin(), engine.landmarks().end()), drawn);
  const auto again = restarted.Score(all, {.tau = 0.6, .landmarks = 100, .chosen = drawn});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->scores, of_all.scores);
}

TEST_F(LandmarkEngineTest, SumsAfreshIfMostRowsChanged) {
  LandmarkEngine engine(kLandmarkRbf, features_);
  Score(engine, Rows(kLandmarkRows), 300);
  const LandmarkScores second = Score(engine, Rows(kLandmarkRows, 1), 300);
  EXPECT_FALSE(second.warm);
  EXPECT_EQ(second.rows_summed, kLandmarkRows);
}

TEST_F(LandmarkEngineTest, IsTheSameBitForBitOnAnyNumberOfThreads) {
  const RowList rows = Rows(kLandmarkRows);
  for (const bool refine : {false, true}) {
    const LandmarkRequest request{.tau = 0.6, .landmarks = 300, .refine = refine};
    LandmarkEngine many(kLandmarkRbf, features_), one(kLandmarkRbf, features_);
    const LandmarkScores with_all = *many.Score(rows, request);
    const tbb::global_control control(tbb::global_control::max_allowed_parallelism, 1);
    const LandmarkScores with_one = *one.Score(rows, request);
    EXPECT_EQ(with_all.scores, with_one.scores);
    EXPECT_EQ(with_all.quality.residual, with_one.quality.residual);
  }
}

TEST_F(LandmarkEngineTest, IfTauIsOutOfReachTheRankCountsWhatIsInReach) {
  // Nearly the identity: sixty landmarks see sixty of fifteen hundred directions.
  const kernel::KernelFunction narrow{.type = kernel::KernelType::kRbf, .sigma = 0.2};
  LandmarkEngine engine(narrow, features_);
  const auto scored = engine.Score(Rows(kLandmarkRows), {.tau = 0.6, .landmarks = 60});
  ASSERT_TRUE(scored.ok()) << scored.status();
  EXPECT_LT(scored->quality.captured_share, 0.2);
  EXPECT_LE(scored->rank, 60u);
  EXPECT_GE(scored->trace_share, 0.6 * scored->quality.captured_share * 0.999);
}

TEST_F(LandmarkEngineTest, AllRowsAsLandmarksAreExactUpToTheRidge) {
  const RowList rows = Rows(400);
  LandmarkEngine engine(kLandmarkRbf, features_);
  const LandmarkScores scored = Score(engine, rows, 400);
  const LeverageScores exact = Exact(rows);
  EXPECT_EQ(scored.rank, exact.eigen.rank);
  EXPECT_LT(LargestDifference(scored.scores, exact.scores), 0.01 * static_cast<double>(exact.eigen.rank) / 400);
}

}  // namespace
}  // namespace fulcrum::leverage
