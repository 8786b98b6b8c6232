#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "stages/core/random.h"
#include "stages/select/strategy.h"
#include "tests/support/matrices.h"
#include "tests/unit/stages/select/posterior/dense_inverse.h"
#include "tests/unit/stages/select/small_pool.h"

namespace fulcrum::select {
namespace {

constexpr std::size_t kMembers = 16;
constexpr double kCommitteeNoise = 0.1;

/// Every label as often as it was drawn, which equals a label with less noise; the divergences by their definition.
std::vector<double> NaiveDisagreements(const SmallPool& pool, const Candidates& candidates) {
  const Matrix<double> kernel = testing::NaiveKernel(candidates.classifier_kernel, pool.features(), pool.features());
  const RowList labeled = LabeledRows(candidates.labels);
  Random random = Random::Fork(candidates.seed, candidates.queries_so_far);
  std::vector<Matrix<double>> probabilities;
  for (std::size_t m = 0; m < kMembers; ++m) {
    RowList sample;
    for (std::size_t i = 0; i < labeled.size(); ++i) sample.push_back(labeled[random.Below(labeled.size())]);
    Matrix<double> system(sample.size(), sample.size());
    for (std::size_t i = 0; i < sample.size(); ++i) {
      for (std::size_t j = 0; j < sample.size(); ++j) {
        system(i, j) = kernel(sample[i], sample[j]) + (i == j ? kCommitteeNoise : 0);
      }
    }
    const Matrix<double> inverse = DenseInverse(system.view());
    Matrix<double>& member = probabilities.emplace_back(candidates.labels.size(), candidates.class_count);
    for (std::size_t row = 0; row < member.rows(); ++row) {
      double sum = 0;
      for (std::size_t c = 0; c < candidates.class_count; ++c) {
        double value = 0;
        for (std::size_t i = 0; i < sample.size(); ++i) {
          for (std::size_t j = 0; j < sample.size(); ++j) {
            const bool own = candidates.labels[sample[j]] == static_cast<ClassIndex>(c);
            value += kernel(row, sample[i]) * inverse(i, j) * (own ? 1 : -1);
          }
        }
        sum += member(row, c) = std::exp(2 * value);
      }
      for (double& p : member.row(row)) p /= sum;
    }
  }
  std::vector<double> disagreements(candidates.labels.size(), 0.0);
  for (std::size_t row = 0; row < disagreements.size(); ++row) {
    for (std::size_t c = 0; c < candidates.class_count; ++c) {
      double mean = 0;
      for (const Matrix<double>& member : probabilities) mean += member(row, c) / kMembers;
      for (const Matrix<double>& member : probabilities) {
        disagreements[row] += member(row, c) * std::log(member(row, c) / mean) / kMembers;
      }
    }
  }
  return disagreements;
}

TEST(CommitteeTest, TakesWhatTheMembersDisagreeAboutMost) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const SmallPool pool({.rows = 40, .classes = 3, .labels_per_class = 4, .seed = seed});
    Candidates candidates = pool.candidates(6);
    candidates.seed = seed;
    const std::vector<double> expected = NaiveDisagreements(pool, candidates);
    RowList order = UnlabeledRows(candidates.labels);
    std::ranges::sort(order, std::greater<>(), [&](RowIndex row) { return expected[row]; });
    const auto selection = MakeCommittee()->Select(candidates);
    ASSERT_TRUE(selection.ok()) << selection.status();
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(selection->picks[i].row, order[i]) << seed;
      EXPECT_NEAR(selection->picks[i].gain, expected[order[i]], 1e-9);
    }
  }
}

}  // namespace
}  // namespace fulcrum::select
