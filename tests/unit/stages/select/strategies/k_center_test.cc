#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "stages/select/strategy.h"
#include "tests/unit/stages/select/small_pool.h"

namespace fulcrum::select {
namespace {

double SquaredDistance(ConstMatrixView x, RowIndex a, RowIndex b) {
  double squared = 0;
  for (std::size_t j = 0; j < x.cols(); ++j) squared += (x(a, j) - x(b, j)) * (x(a, j) - x(b, j));
  return squared;
}

std::vector<RowIndex> NaiveKCenter(const SmallPool& pool, const Candidates& candidates, RowList centers,
                                   std::vector<RowIndex> picks) {
  while (picks.size() < candidates.batch) {
    RowIndex farthest = 0;
    double largest = -1;
    for (const RowIndex row : UnlabeledRows(candidates.labels)) {
      if (std::ranges::find(picks, row) != picks.end()) continue;
      double nearest = 1e300;
      for (const RowIndex center : centers) nearest = std::min(nearest, SquaredDistance(pool.features(), row, center));
      if (nearest > largest) {
        largest = nearest;
        farthest = row;
      }
    }
    picks.push_back(farthest);
    centers.push_back(farthest);
  }
  return picks;
}

TEST(KCenterTest, EqualsTheNaiveRule) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const SmallPool pool({.rows = 700, .seed = seed});
    const Candidates candidates = pool.candidates(40);
    const auto selection = MakeKCenter()->Select(candidates);
    ASSERT_TRUE(selection.ok()) << selection.status();
    EXPECT_EQ(RowsOf(*selection), NaiveKCenter(pool, candidates, LabeledRows(candidates.labels), {})) << seed;
  }
}

TEST(KCenterTest, WithoutLabelsItStartsWithWhatCoversMost) {
  const SmallPool pool({.rows = 80, .labels_per_class = 0, .seed = 2});
  const Candidates candidates = pool.candidates(10);
  const RowIndex first = RowsOf(*MakeHerding()->Select(pool.candidates(1)))[0];
  const auto selection = MakeKCenter()->Select(candidates);
  ASSERT_TRUE(selection.ok()) << selection.status();
  EXPECT_EQ(RowsOf(*selection), NaiveKCenter(pool, candidates, {first}, {first}));
}

}  // namespace
}  // namespace fulcrum::select
