#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stages/select/posterior/posterior.h"
#include "stages/select/strategy.h"
#include "tests/support/matrices.h"
#include "tests/unit/stages/select/small_pool.h"

namespace fulcrum::select {
namespace {

constexpr double kMu = 0.1;

void Deflate(MutableMatrixView kernel, std::size_t row) {
  const Matrix<double> before = Matrix<double>::CopyOf(kernel);
  for (std::size_t i = 0; i < kernel.rows(); ++i) {
    for (std::size_t j = 0; j < kernel.cols(); ++j) {
      kernel(i, j) -= before(i, row) * before(row, j) / (before(row, row) + kMu);
    }
  }
}

double Score(ConstMatrixView kernel, std::size_t row) {
  double squares = 0;
  for (std::size_t i = 0; i < kernel.rows(); ++i) squares += kernel(i, row) * kernel(i, row);
  return squares / (kernel(row, row) + kMu);
}

/// The sequential rule on a full matrix that is updated at each step, the labeled deflated first, by row.
std::vector<Pick> NaiveDesign(const Candidates& candidates, ConstMatrixView features) {
  Matrix<double> kernel = testing::NaiveKernel(candidates.classifier_kernel, features, features);
  for (const RowIndex row : LabeledRows(candidates.labels)) Deflate(kernel.view(), row);
  RowList open = UnlabeledRows(candidates.labels);
  std::vector<Pick> picks;
  while (picks.size() < candidates.batch) {
    Pick best = {.row = open[0], .gain = Score(kernel.view(), open[0])};
    for (const RowIndex row : open) {
      if (const double score = Score(kernel.view(), row); score > best.gain) best = {.row = row, .gain = score};
    }
    picks.push_back(best);
    Deflate(kernel.view(), best.row);
    std::erase(open, best.row);
  }
  return picks;
}

TEST(TedTest, EqualsTheNaiveRule) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const kernel::KernelFunction kernel = seed % 4 == 0 ? kernel::KernelFunction{.type = kernel::KernelType::kLinear}
                                                        : kernel::KernelFunction{.sigma = 2};
    const SmallPool pool({.rows = 40, .labels_per_class = seed % 5, .seed = seed, .kernel = kernel});
    const Candidates candidates = pool.candidates(kernel.type == kernel::KernelType::kLinear ? 3 : 10);
    const auto selection = MakeTed()->Select(candidates);
    ASSERT_TRUE(selection.ok()) << selection.status();
    const std::vector<Pick> expected = NaiveDesign(candidates, pool.features());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(selection->picks[i].row, expected[i].row) << "seed " << seed << " pick " << i;
      EXPECT_NEAR(selection->picks[i].gain, expected[i].gain, 1e-9 * expected[0].gain);
    }
  }
}

TEST(TedTest, ABatchEqualsAsManyRoundsOfOne) {
  SmallPool pool({.rows = 50, .seed = 3, .kernel = {.sigma = 2}});
  ASSERT_TRUE(MakeTed()->ignores_answers());
  const std::vector<RowIndex> batch = RowsOf(*MakeTed()->Select(pool.candidates(8)));
  for (const RowIndex expected : batch) {
    const RowIndex picked = MakeTed()->Select(pool.candidates(1))->picks[0].row;
    EXPECT_EQ(picked, expected);
    pool.labels()[picked] = 1;
  }
}

TEST(ExperimentalDesignTest, AStreamedKernelGivesTheSameScores) {
  const kernel::KernelFunction kernel = {.sigma = 2};
  // More rows than a tile has, so that tiles of all kinds occur.
  const kernel::DenseFeatures features(testing::RandomMatrix(1300, 3, 1));
  const PoolKernel in_memory(kernel, features);
  const PoolKernel streamed(kernel, features, /*rows_in_memory=*/0);
  const RowList taken = {4, 600, 1299};
  auto expected = ExperimentalDesign::Start(in_memory, kMu, taken, 2);
  auto actual = ExperimentalDesign::Start(streamed, kMu, taken, 2);
  ASSERT_TRUE(expected.ok() && actual.ok());
  for (const RowIndex next : {RowIndex{9}, RowIndex{1100}}) {
    expected->Take(next);
    actual->Take(next);
  }
  for (RowIndex row = 0; row < 1300; ++row) {
    ASSERT_NEAR(actual->Score(row), expected->Score(row), 1e-9 * (1 + expected->Score(row)));
  }
}

}  // namespace
}  // namespace fulcrum::select
