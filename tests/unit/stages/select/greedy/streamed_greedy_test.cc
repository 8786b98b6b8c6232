#include "stages/select/greedy/streamed_greedy.h"

#include <cmath>
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "stages/core/matrix.h"
#include "stages/core/random.h"
#include "stages/kernel/features.h"
#include "tbb/global_control.h"
#include "tests/support/matrices.h"

namespace fulcrum::select {
namespace {

constexpr kernel::KernelFunction kStreamedRbf{.type = kernel::KernelType::kRbf, .sigma = 3};

/// Random points around a place that is `offset` from the origin in every dimension, in steps that single precision has
/// there too.
Matrix<double> PointsAround(double offset, std::size_t count) {
  Matrix<double> points = testing::RandomMatrix(count, 6, 1);
  for (std::size_t i = 0; i < count && offset != 0; ++i) {
    for (double& value : points.row(i)) value = offset + std::round(1024 * value) / 1024;
  }
  return points;
}

class StreamedGreedyTest : public ::testing::Test {
 protected:
  explicit StreamedGreedyTest(std::size_t size = 2000, double offset = 0)
      : points_(PointsAround(offset, 2 * size)), features_(points_.Clone()), rows_(size), scores_(size) {
    Random random(2);
    for (std::size_t i = 0; i < size; ++i) {
      rows_[i] = static_cast<RowIndex>(2 * i);
      scores_[i] = 0.1 * random.Uniform();
    }
    Random(3).Shuffle(std::span(rows_));
    for (std::size_t i = 0; i < 40; ++i) labeled_.push_back(i * 17);
  }

  StreamedProblem Problem(std::size_t batch, std::size_t shortlist) const {
    return {.features = &features_,
            .kernel = kStreamedRbf,
            .rows = rows_,
            .scores = scores_,
            .labeled = labeled_,
            .batch = batch,
            .alpha = 0.8,
            .shortlist = shortlist};
  }

  GreedyBatch InMemory(std::size_t batch) const {
    Matrix<double> own(rows_.size(), points_.cols());
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      std::copy_n(points_.row(rows_[i]).data(), points_.cols(), own.row(i).data());
    }
    const Matrix<double> kernel = testing::NaiveKernel(kStreamedRbf, own.view(), own.view());
    return MaximizeGreedily(
        {.rows = rows_, .scores = scores_, .kernel = kernel.view(), .labeled = labeled_, .batch = batch, .alpha = 0.8});
  }

  Matrix<double> points_;
  kernel::DenseFeatures features_;
  RowList rows_;
  std::vector<double> scores_;
  std::vector<std::size_t> labeled_;
};

class StreamedGreedyFarAwayTest : public StreamedGreedyTest {
 protected:
  StreamedGreedyFarAwayTest() : StreamedGreedyTest(2000, 1000) {}
};

TEST_F(StreamedGreedyFarAwayTest, FeaturesFarFromTheOriginGiveTheBatchOfDoublePrecision) {
  for (const std::size_t batch : {1, 25, 100}) {
    const auto streamed = MaximizeStreamed(Problem(batch, 200));
    ASSERT_TRUE(streamed.ok()) << streamed.status();
    EXPECT_EQ(streamed->positions, InMemory(batch).positions) << batch;
  }
}

TEST_F(StreamedGreedyTest, ChoosesWhatGreedyInMemoryChooses) {
  for (const std::size_t batch : {1, 25, 300}) {
    const GreedyBatch expected = InMemory(batch);
    for (const std::size_t shortlist : {50, 500, 100000}) {
      const auto streamed = MaximizeStreamed(Problem(batch, shortlist));
      ASSERT_TRUE(streamed.ok()) << streamed.status();
      EXPECT_EQ(streamed->positions, expected.positions) << batch << " of a shortlist of " << shortlist;
      EXPECT_NEAR(streamed->value, expected.value, 1e-5 * expected.value);
      EXPECT_GE(streamed->upper_bound, streamed->value);
      EXPECT_NEAR(streamed->upper_bound, expected.upper_bound, 1e-3 * expected.upper_bound);
      EXPECT_TRUE(std::is_sorted(streamed->gains.begin(), streamed->gains.end(), std::greater<>()));
    }
  }
}

TEST_F(StreamedGreedyTest, AShortlistServesManyPicks) {
  const auto streamed = MaximizeStreamed(Problem(300, 500));
  ASSERT_TRUE(streamed.ok()) << streamed.status();
  EXPECT_LT(streamed->evaluations, 20u) << "shortlists";
}

TEST_F(StreamedGreedyTest, ScoresThatAreOffGiveTheSameBatchAndAreAskedForIfTheyMatter) {
  StreamedProblem problem = Problem(25, 50);
  const auto expected = MaximizeStreamed(problem);
  Random random(9);
  std::vector<double> off = scores_;
  for (double& score : off) score += 0.01 * (2 * random.Uniform() - 1);
  std::size_t asked = 0;
  problem.scores = off;
  problem.slack = 0.01;
  problem.exact_scores = [&](std::span<const std::size_t> positions) {
    asked += positions.size();
    std::vector<double> exact;
    for (const std::size_t position : positions) exact.push_back(scores_[position]);
    return exact;
  };
  const auto streamed = MaximizeStreamed(problem);
  ASSERT_TRUE(expected.ok() && streamed.ok());
  EXPECT_EQ(streamed->positions, expected->positions);
  EXPECT_NEAR(streamed->value, expected->value, 1e-6) << "shortlists, and with them roundings, may differ";
  EXPECT_GE(streamed->upper_bound, expected->upper_bound) << "a bound from scores that may be larger is no smaller";
  EXPECT_LT(asked, scores_.size() / 3);
}

TEST_F(StreamedGreedyTest, DoesNotDependOnTheNumberOfThreads) {
  const auto many = MaximizeStreamed(Problem(100, 200));
  const tbb::global_control control(tbb::global_control::max_allowed_parallelism, 1);
  const auto one = MaximizeStreamed(Problem(100, 200));
  ASSERT_TRUE(many.ok() && one.ok());
  EXPECT_EQ(many->positions, one->positions);
  EXPECT_EQ(many->gains, one->gains);
  EXPECT_EQ(many->upper_bound, one->upper_bound);
}

TEST_F(StreamedGreedyTest, TakesAllThereIsIfThatIsLess) {
  const auto streamed = MaximizeStreamed(Problem(5000, 300));
  ASSERT_TRUE(streamed.ok()) << streamed.status();
  EXPECT_EQ(streamed->positions.size(), rows_.size() - labeled_.size());
  for (const std::size_t position : labeled_) {
    EXPECT_THAT(streamed->positions, ::testing::Not(::testing::Contains(position)));
  }
}

TEST_F(StreamedGreedyTest, GivesTiesToTheSmallerRow) {
  // Equal points with equal scores: nothing but the row tells them apart, before and after every pick.
  Matrix<double> equal(400, 3);
  for (std::size_t i = 0; i < 400; ++i) std::fill_n(equal.row(i).data(), 3, 0.5);
  const kernel::DenseFeatures features(std::move(equal));
  RowList rows(400);
  std::iota(rows.rbegin(), rows.rend(), RowIndex{0});
  const std::vector<double> scores(400, 0.2);
  const auto streamed = MaximizeStreamed({.features = &features,
                                          .kernel = kStreamedRbf,
                                          .rows = rows,
                                          .scores = scores,
                                          .labeled = {},
                                          .batch = 5,
                                          .alpha = 0.5,
                                          .shortlist = 20});
  ASSERT_TRUE(streamed.ok()) << streamed.status();
  EXPECT_THAT(streamed->positions, ::testing::ElementsAre(399, 398, 397, 396, 395));
}

TEST_F(StreamedGreedyTest, RejectsAKernelOutsideTheUnitInterval) {
  StreamedProblem problem = Problem(10, 100);
  problem.kernel = {.type = kernel::KernelType::kCosine};
  const auto streamed = MaximizeStreamed(problem);
  EXPECT_EQ(streamed.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(streamed.status().message()), ::testing::HasSubstr("cosine"));
  EXPECT_THAT(std::string(streamed.status().message()), ::testing::HasSubstr("Use the rbf kernel"));
}

TEST_F(StreamedGreedyTest, ReadsSparseFeaturesToo) {
  SparseMatrix sparse;
  sparse.cols = points_.cols();
  for (std::size_t row = 0; row < points_.rows(); ++row) {
    for (std::size_t column = 0; column < points_.cols(); ++column) {
      sparse.columns.push_back(static_cast<std::int32_t>(column));
      sparse.values.push_back(points_(row, column));
    }
    sparse.offsets.push_back(sparse.values.size());
  }
  const kernel::SparseFeatures features(std::move(sparse));
  StreamedProblem problem = Problem(30, 100);
  const auto dense = MaximizeStreamed(problem);
  problem.features = &features;
  const auto streamed = MaximizeStreamed(problem);
  ASSERT_TRUE(dense.ok() && streamed.ok());
  EXPECT_EQ(streamed->positions, dense->positions);
}

}  // namespace
}  // namespace fulcrum::select
