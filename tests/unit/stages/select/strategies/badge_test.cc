#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "stages/core/random.h"
#include "stages/select/strategy.h"
#include "tests/unit/stages/select/small_pool.h"

namespace fulcrum::select {
namespace {

/// (p - e_y*) (x) x, written out; with a linear kernel phi(x) = x.
std::vector<double> Embedding(const SmallPool& pool, const Candidates& candidates, RowIndex row) {
  std::vector<double> embedding;
  for (std::size_t c = 0; c < candidates.class_count; ++c) {
    const bool own = candidates.predicted[row] == static_cast<ClassIndex>(c);
    for (std::size_t j = 0; j < pool.features().cols(); ++j) {
      embedding.push_back((candidates.probabilities(row, c) - (own ? 1 : 0)) * pool.features()(row, j));
    }
  }
  return embedding;
}

double SquaredDistance(const std::vector<double>& a, const std::vector<double>& b) {
  double squared = 0;
  for (std::size_t i = 0; i < a.size(); ++i) squared += (a[i] - b[i]) * (a[i] - b[i]);
  return squared;
}

std::vector<RowIndex> NaiveBadge(const SmallPool& pool, const Candidates& candidates) {
  const RowList rows = UnlabeledRows(candidates.labels);
  std::vector<std::vector<double>> embeddings;
  for (const RowIndex row : rows) embeddings.push_back(Embedding(pool, candidates, row));
  const std::vector<double> zero(embeddings[0].size(), 0.0);
  std::size_t next = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (SquaredDistance(embeddings[i], zero) > SquaredDistance(embeddings[next], zero)) next = i;
  }
  Random random = Random::Fork(candidates.seed, candidates.queries_so_far);
  std::vector<std::size_t> picks = {next};
  while (picks.size() < candidates.batch) {
    std::vector<double> nearest(rows.size(), 1e300);
    double total = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (const std::size_t pick : picks) {
        nearest[i] = std::min(nearest[i], SquaredDistance(embeddings[i], embeddings[pick]));
      }
      total += nearest[i];
    }
    double left = random.Uniform() * total;
    std::size_t drawn = 0;
    while (left >= nearest[drawn]) left -= nearest[drawn++];
    picks.push_back(drawn);
  }
  std::vector<RowIndex> chosen;
  for (const std::size_t pick : picks) chosen.push_back(rows[pick]);
  return chosen;
}

TEST(BadgeTest, EqualsKMeansPlusPlusOnTheEmbeddings) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const SmallPool pool({.rows = 60, .classes = 3, .seed = seed, .kernel = {.type = kernel::KernelType::kLinear}});
    Candidates candidates = pool.candidates(12);
    candidates.seed = seed;
    const auto selection = MakeBadge()->Select(candidates);
    ASSERT_TRUE(selection.ok()) << selection.status();
    EXPECT_EQ(RowsOf(*selection), NaiveBadge(pool, candidates)) << seed;
  }
}

TEST(BadgeTest, AnotherRoundDrawsOtherRows) {
  const SmallPool pool({.rows = 60, .seed = 1});
  Candidates candidates = pool.candidates(12);
  const std::vector<RowIndex> rows = RowsOf(*MakeBadge()->Select(candidates));
  candidates.queries_so_far = 12;
  EXPECT_NE(RowsOf(*MakeBadge()->Select(candidates)), rows);
}

TEST(BadgeTest, RowsThatAreAllCertainAreStillABatch) {
  const SmallPool pool({.rows = 30, .seed = 1});
  Candidates candidates = pool.candidates(5);
  Matrix<double> certain = Matrix<double>::Zero(30, 2);
  for (std::size_t i = 0; i < 30; ++i) certain(i, static_cast<std::size_t>(candidates.predicted[i])) = 1;
  candidates.probabilities = certain.view();
  const auto selection = MakeBadge()->Select(candidates);
  ASSERT_TRUE(selection.ok()) << selection.status();
  EXPECT_THAT(RowsOf(*selection), ::testing::ElementsAre(4, 5, 6, 7, 8));
}

}  // namespace
}  // namespace fulcrum::select
