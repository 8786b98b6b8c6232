#include "stages/leverage/leverage_engine.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>

#include "gtest/gtest.h"
#include "stages/leverage/leverage_scores.h"
#include "stages/linalg/top_eigen.h"
#include "tests/support/matrices.h"

namespace fulcrum::leverage {
namespace {

constexpr kernel::KernelFunction kRbf{.type = kernel::KernelType::kRbf, .sigma = 4};

RowList AllRows(std::size_t count) {
  RowList rows(count);
  std::iota(rows.begin(), rows.end(), RowIndex{0});
  return rows;
}

/// Scores by pool row, whatever the engine's order.
std::vector<double> ByRow(const ClassScores& scored, std::size_t pool) {
  std::vector<double> scores(pool, 0.0);
  for (std::size_t i = 0; i < scored.rows.size(); ++i) scores[scored.rows[i]] = scored.scores[i];
  return scores;
}

/// The definition, by LAPACK on a matrix from the textbook formula.
LeverageScores Reference(const kernel::KernelFunction& kernel, ConstMatrixView points, double tau,
                         const std::string& engine = "dense") {
  const Matrix<double> matrix = testing::NaiveKernel(kernel, points, points);
  return *ComputeLeverage(linalg::DenseSymmetricOperator(matrix.view()), {.tau = tau, .engine = engine});
}

TEST(LeverageEngine, EveryEngineOfTheRegistryScoresLikeTheDefinition) {
  const Matrix<double> points = testing::RandomMatrix(700, 5, 1);
  const kernel::DenseFeatures features(points.Clone());
  const LeverageScores expected = Reference(kRbf, points.view(), 0.6);
  for (const Engine& engine : Engines()) {
    // Landmarks that are all of the rows see all of the kernel, but for a ridge and in single precision.
    const double tolerance = engine.form == KernelForm::kLandmarks ? 2e-3 : 1e-8;
    const auto made = MakeLeverageEngine(engine.name, {kRbf, features});
    ASSERT_TRUE(made.ok()) << made.status();
    const auto scored = (*made)->Score(AllRows(700), {.tau = 0.6});
    ASSERT_TRUE(scored.ok()) << engine.name << ": " << scored.status();
    EXPECT_EQ(scored->rank, expected.eigen.rank) << engine.name;
    EXPECT_FALSE(scored->reason.empty());
    const std::vector<double> scores = ByRow(*scored, 700);
    for (std::size_t i = 0; i < 700; ++i) ASSERT_NEAR(scores[i], expected.scores[i], tolerance) << engine.name;
    if (!scored->kernel.empty()) {
      EXPECT_NEAR(scored->kernel(0, 1),
                  testing::NaiveKernel(kRbf, points.view().Rows(scored->rows[0], 1),
                                       points.view().Rows(scored->rows[1], 1))(0, 0),
                  1e-12);
    }
  }
  EXPECT_FALSE(MakeLeverageEngine("quick", {kRbf, features}).ok());
}

TEST(LeverageEngine, ExactEnginesStartTheNextRoundWarmAndStayExact) {
  const Matrix<double> points = testing::RandomMatrix(800, 5, 2);
  const kernel::DenseFeatures features(points.Clone());
  for (const std::string name : {"krylov", "tiled"}) {
    const auto engine = *MakeLeverageEngine(name, {kRbf, features});
    const RowList all = AllRows(800);
    ASSERT_TRUE(engine->Score(std::span(all).first(780), {.tau = 0.6}).ok());
    const auto warm = engine->Score(all, {.tau = 0.6});
    ASSERT_TRUE(warm.ok()) << warm.status();
    EXPECT_TRUE(warm->warm) << name;
    const LeverageScores expected = Reference(kRbf, points.view(), 0.6);
    const std::vector<double> scores = ByRow(*warm, 800);
    for (std::size_t i = 0; i < 800; ++i) ASSERT_NEAR(scores[i], expected.scores[i], 1e-8) << name;
  }
}

TEST(LeverageEngine, AKernelThatIsNotFiniteIsRefusedWithTheRow) {
  Matrix<double> points = Matrix<double>::Zero(50, 3);
  points(17, 0) = 1e30;
  const kernel::DenseFeatures features(std::move(points));
  const kernel::KernelFunction poly{.type = kernel::KernelType::kPoly, .degree = 20};
  for (const Engine& engine : Engines()) {
    const auto scored = (*MakeLeverageEngine(engine.name, {poly, features}))->Score(AllRows(50), {});
    EXPECT_EQ(scored.status().code(), absl::StatusCode::kInvalidArgument) << engine.name;
    EXPECT_NE(scored.status().message().find("row 17"), std::string::npos) << engine.name << scored.status();
  }
}

TEST(LeverageEngine, AMatrixThatDoesNotFitIsRefusedAndAutoDoesWithoutOne) {
  const kernel::DenseFeatures features(testing::RandomMatrix(3000, 3, 1));
  const ClassRequest request{.memory_bytes = std::size_t{40} << 20};
  const auto krylov = (*MakeLeverageEngine("krylov", {kRbf, features}))->Score(AllRows(3000), request);
  EXPECT_EQ(krylov.status().code(), absl::StatusCode::kResourceExhausted);
  const auto chosen = (*MakeLeverageEngine("auto", {kRbf, features}))->Score(AllRows(3000), request);
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_NE(chosen->reason.find("kernel matrix of 3000 rows"), std::string::npos) << chosen->reason;
}

TEST(LeverageEngine, AutoTakesTheSubspaceFromKrylovToTiledAndBack) {
  constexpr std::size_t kMatrixRows = 3000;
  const kernel::DenseFeatures features(testing::RandomMatrix(kMatrixRows + 10, 3, 1));
  const ClassRequest with_matrix{.tau = 0.5};
  const ClassRequest without_matrix{.tau = 0.5, .memory_bytes = std::size_t{40} << 20};
  const auto engine = *MakeLeverageEngine("auto", {kRbf, features});
  RowList rows = AllRows(kMatrixRows);
  std::string last = "none";
  for (const ClassRequest& request : {with_matrix, without_matrix, with_matrix}) {
    const auto scored = engine->Score(rows, request);
    ASSERT_TRUE(scored.ok()) << scored.status();
    EXPECT_NE(scored->engine, last) << "the engine changes in every round";
    EXPECT_EQ(scored->warm, last != "none") << scored->reason;
    const auto expected = (*MakeLeverageEngine("krylov", {kRbf, features}))->Score(rows, with_matrix);
    ASSERT_TRUE(expected.ok());
    const std::vector<double> scores = ByRow(*scored, features.rows()), exact = ByRow(*expected, features.rows());
    for (std::size_t row = 0; row < scores.size(); ++row) ASSERT_NEAR(scores[row], exact[row], 1e-8) << row;
    last = scored->engine;
    rows.erase(rows.begin() + 7);
    rows.push_back(rows.back() + 1);
  }
}

/// Counts the kernel values that are computed of it.
class CountedFeatures final : public kernel::InnerProductFeatures {
 public:
  explicit CountedFeatures(Matrix<double> values) : dense_(std::move(values)) {
    squared_norms_.assign(dense_.squared_norms().begin(), dense_.squared_norms().end());
  }
  std::size_t dims() const override { return dense_.dims(); }
  void WriteInnerProducts(std::span<const RowIndex> a, std::span<const RowIndex> b,
                          MutableMatrixView out) const override {
    values_ += a.size() * b.size();
    MultiplyRows(dense_.Pack(a), 0, dense_.Pack(b), 0, out);
  }
  std::size_t values() const { return values_; }

 private:
  kernel::DenseFeatures dense_;
  mutable std::atomic<std::size_t> values_ = 0;
};

TEST(LeverageEngine, RowsOfFewDifferentValuesTakeAFewColumnsOfTheKernel) {
  constexpr std::size_t kRows = 50000;
  for (const std::size_t points : {1, 2, 5}) {
    Matrix<double> values(kRows, 1);
    for (std::size_t i = 0; i < kRows; ++i) values(i, 0) = static_cast<double>(i % points);
    for (const std::string name : {"auto", "krylov", "tiled", "landmark"}) {
      const CountedFeatures features(values.Clone());
      const auto scored = (*MakeLeverageEngine(name, {{.type = kernel::KernelType::kRbf, .sigma = 1}, features}))
                              ->Score(AllRows(kRows), {.tau = 1.0});
      ASSERT_TRUE(scored.ok()) << name << ": " << scored.status();
      EXPECT_EQ(scored->rank, points) << name;
      EXPECT_LE(features.values(), (points + 1) * kRows) << name << ": " << scored->reason;
      for (const double score : scored->scores) {
        ASSERT_NEAR(score, static_cast<double>(points) / kRows, 1e-10) << name;
      }
    }
  }
}

TEST(LeverageEngine, ALowRankNeedsNoMemoryForAMatrix) {
  constexpr std::size_t kRows = 50000;
  Matrix<double> values(kRows, 1);
  for (std::size_t i = 0; i < kRows; ++i) values(i, 0) = static_cast<double>(i % 2);
  const kernel::DenseFeatures features(values.Clone());
  const ClassRequest request{.tau = 1.0, .memory_bytes = std::size_t{1} << 30};
  const auto scored = (*MakeLeverageEngine("krylov", {kRbf, features}))->Score(AllRows(kRows), request);
  ASSERT_TRUE(scored.ok()) << scored.status();
  EXPECT_EQ(scored->rank, 2u);
  // Others are still refused: their kernel has as many dimensions as rows.
  for (std::size_t i = 0; i < kRows; ++i) values(i, 0) = static_cast<double>(i);
  const kernel::DenseFeatures different(values.Clone());
  EXPECT_EQ((*MakeLeverageEngine("krylov", {kRbf, different}))->Score(AllRows(kRows), request).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(LeverageEngine, ALinearKernelOfFewFeaturesIsExactFromItsColumns) {
  const Matrix<double> points = testing::RandomMatrix(2000, 3, 4);
  const kernel::DenseFeatures features(points.Clone());
  const kernel::KernelFunction linear{.type = kernel::KernelType::kLinear};
  const auto scored = (*MakeLeverageEngine("krylov", {linear, features}))->Score(AllRows(2000), {.tau = 0.5});
  const LeverageScores expected = Reference(linear, points.view(), 0.5, "krylov");
  ASSERT_TRUE(scored.ok()) << scored.status();
  EXPECT_EQ(scored->rank, expected.eigen.rank);
  for (std::size_t i = 0; i < 2000; ++i) ASSERT_NEAR(scored->scores[i], expected.scores[i], 1e-10);
}

TEST(LeverageEngine, FeaturesFarFromTheOriginScoreLikeTheDefinition) {
  Matrix<double> points = testing::RandomMatrix(700, 16, 6);
  for (std::size_t i = 0; i < points.rows(); ++i) {
    for (double& value : points.row(i)) value += 1000;
  }
  const kernel::DenseFeatures features(points.Clone());
  const LeverageScores expected = Reference(kRbf, points.view(), 0.6);
  const double mean = static_cast<double>(expected.eigen.rank) / 700;
  for (const std::string name : {"krylov", "tiled", "landmark"}) {
    const auto scored = (*MakeLeverageEngine(name, {kRbf, features}))->Score(AllRows(700), {.tau = 0.6});
    ASSERT_TRUE(scored.ok()) << name << ": " << scored.status();
    EXPECT_EQ(scored->rank, expected.eigen.rank) << name;
    const std::vector<double> scores = ByRow(*scored, 700);
    for (std::size_t i = 0; i < 700; ++i) ASSERT_NEAR(scores[i], expected.scores[i], 0.02 * mean) << name;
  }
}

}  // namespace
}  // namespace fulcrum::leverage
