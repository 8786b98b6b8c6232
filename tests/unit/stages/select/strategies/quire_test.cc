#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "stages/select/strategy.h"
#include "tests/support/matrices.h"
#include "tests/unit/stages/select/posterior/dense_inverse.h"
#include "tests/unit/stages/select/small_pool.h"

namespace fulcrum::select {
namespace {

using Indices = std::vector<std::size_t>;

Matrix<double> Part(ConstMatrixView matrix, const Indices& rows, const Indices& cols) {
  Matrix<double> part(rows.size(), cols.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < cols.size(); ++j) part(i, j) = matrix(rows[i], cols[j]);
  }
  return part;
}

/// METHOD's table, letter by letter: L_ss - L_sa L_aa^-1 L_as + 2 |(L_sl - L_sa L_aa^-1 L_al) y_l| with
/// L = (K + I)^-1 and a the unlabeled without s.
double DefinedCriterion(ConstMatrixView inverse, const Indices& labeled, const std::vector<double>& signs,
                        const Indices& unlabeled, std::size_t s) {
  Indices a = unlabeled;
  std::erase(a, s);
  const Matrix<double> inverse_aa = DenseInverse(Part(inverse, a, a).view());
  std::vector<double> weights(a.size(), 0.0);  // L_sa L_aa^-1
  for (std::size_t j = 0; j < a.size(); ++j) {
    for (std::size_t i = 0; i < a.size(); ++i) weights[j] += inverse(s, a[i]) * inverse_aa(i, j);
  }
  double variance_part = inverse(s, s);
  for (std::size_t j = 0; j < a.size(); ++j) variance_part -= weights[j] * inverse(a[j], s);
  double label_part = 0;
  for (std::size_t i = 0; i < labeled.size(); ++i) {
    double element = inverse(s, labeled[i]);
    for (std::size_t j = 0; j < a.size(); ++j) element -= weights[j] * inverse(a[j], labeled[i]);
    label_part += element * signs[i];
  }
  return variance_part + 2 * std::abs(label_part);
}

/// Of every unlabeled row, one criterion a class against the rest, summed; a single one for two classes.
std::vector<double> DefinedCriteria(const SmallPool& pool, const Candidates& candidates) {
  Matrix<double> kernel = testing::NaiveKernel(candidates.classifier_kernel, pool.features(), pool.features());
  for (std::size_t i = 0; i < kernel.rows(); ++i) kernel(i, i) += 1;
  const Matrix<double> inverse = DenseInverse(kernel.view());
  Indices labeled, unlabeled;
  for (std::size_t row = 0; row < candidates.labels.size(); ++row) {
    (candidates.labels[row] == kUnlabeled ? unlabeled : labeled).push_back(row);
  }
  std::vector<double> criteria(unlabeled.size(), 0.0);
  for (std::size_t c = 0; c < (candidates.class_count == 2 ? 1 : candidates.class_count); ++c) {
    std::vector<double> signs;
    for (const std::size_t row : labeled)
      signs.push_back(candidates.labels[row] == static_cast<ClassIndex>(c) ? 1 : -1);
    for (std::size_t i = 0; i < unlabeled.size(); ++i) {
      criteria[i] += DefinedCriterion(inverse.view(), labeled, signs, unlabeled, unlabeled[i]);
    }
  }
  return criteria;
}

void ExpectPicksTheDefinedBest(const SmallPool& pool, const Candidates& candidates) {
  const std::vector<double> criteria = DefinedCriteria(pool, candidates);
  const RowList unlabeled = UnlabeledRows(candidates.labels);
  const auto best = std::ranges::min_element(criteria);
  const auto selection = MakeQuire()->Select(candidates);
  ASSERT_TRUE(selection.ok()) << selection.status();
  EXPECT_EQ(selection->picks[0].row, unlabeled[static_cast<std::size_t>(best - criteria.begin())]);
  EXPECT_NEAR(1 / selection->picks[0].gain, *best, 1e-9);
}

TEST(QuireTest, EqualsTheDefinitionOnFiftyRandomProblems) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const kernel::KernelFunction kernel = seed % 3 == 0
                                              ? kernel::KernelFunction{.type = kernel::KernelType::kLinear}
                                              : kernel::KernelFunction{.sigma = 0.5 + 0.1 * static_cast<double>(seed)};
    const SmallPool pool({.rows = 12 + seed % 14, .labels_per_class = 1 + seed % 4, .seed = seed, .kernel = kernel});
    ExpectPicksTheDefinedBest(pool, pool.candidates(1));
  }
}

TEST(QuireTest, EqualsTheDefinitionRoundAfterRound) {
  SmallPool pool({.rows = 16, .labels_per_class = 3, .seed = 9});
  for (int round = 0; round < 8; ++round) {
    const Candidates candidates = pool.candidates(1);
    ExpectPicksTheDefinedBest(pool, candidates);
    const RowIndex row = MakeQuire()->Select(candidates)->picks[0].row;
    pool.labels()[row] = candidates.predicted[row];
  }
}

TEST(QuireTest, SumsOneAgainstRestForMoreClasses) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const SmallPool pool({.rows = 20, .classes = 3, .seed = seed});
    ExpectPicksTheDefinedBest(pool, pool.candidates(1));
  }
}

/// k' (K_gg + I)^-1 right over the rows g given, k and right by row of g.
double Weighted(ConstMatrixView all, const Indices& given, std::size_t s, const std::vector<double>& right) {
  Matrix<double> among = Part(all, given, given);
  for (std::size_t i = 0; i < given.size(); ++i) among(i, i) += 1;
  const Matrix<double> inverse = DenseInverse(among.view());
  double sum = 0;
  for (std::size_t i = 0; i < given.size(); ++i) {
    for (std::size_t j = 0; j < given.size(); ++j) sum += all(s, given[i]) * inverse(i, j) * right[j];
  }
  return sum;
}

TEST(QuireTest, ABatchUpdatesTheVarianceAndKeepsTheMean) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const SmallPool pool({.rows = 25, .dims = 2, .seed = seed, .kernel = {.sigma = 0.5}});
    const Candidates candidates = pool.candidates(6);
    const Matrix<double> all = testing::NaiveKernel(candidates.classifier_kernel, pool.features(), pool.features());
    const RowList labeled = LabeledRows(candidates.labels);
    const Indices start(labeled.begin(), labeled.end());
    std::vector<double> signs;
    for (const RowIndex row : labeled) signs.push_back(candidates.labels[row] == 0 ? 1 : -1);

    const auto selection = MakeQuire()->Select(candidates);
    ASSERT_TRUE(selection.ok()) << selection.status();
    Indices given = start;
    for (const Pick& pick : selection->picks) {
      double smallest = std::numeric_limits<double>::infinity();
      std::size_t best = 0;
      for (std::size_t s = 0; s < 25; ++s) {
        if (std::ranges::count(given, s) > 0) continue;
        std::vector<double> to_given;
        for (const std::size_t row : given) to_given.push_back(all(s, row));
        const double variance = all(s, s) + 1 - Weighted(all.view(), given, s, to_given);
        const double criterion = (1 + 2 * std::abs(Weighted(all.view(), start, s, signs))) / variance;
        if (criterion < smallest) {
          smallest = criterion;
          best = s;
        }
      }
      EXPECT_EQ(pick.row, best);
      EXPECT_NEAR(1 / pick.gain, smallest, 1e-9);
      given.push_back(best);
    }
  }
}

TEST(QuireTest, ABatchDoesNotDependOnHowManyAreKeptUpToDate) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    // A wide kernel, by which every pick changes everyone, so that shortlists often turn out to be beaten.
    const SmallPool pool({.rows = 60, .dims = 2, .seed = seed, .kernel = {.sigma = 1.5}});
    const Candidates candidates = pool.candidates(12);
    const auto whole = MakeQuire()->Select(candidates);
    for (const std::size_t shortlist : {1, 3, 20}) {
      const auto part = MakeQuireWithShortlist(shortlist)->Select(candidates);
      ASSERT_TRUE(whole.ok() && part.ok());
      ASSERT_EQ(part->picks.size(), 12u);
      for (std::size_t i = 0; i < 12; ++i) {
        EXPECT_EQ(part->picks[i].row, whole->picks[i].row) << shortlist << ", pick " << i;
        EXPECT_NEAR(part->picks[i].gain, whole->picks[i].gain, 1e-12);
      }
    }
  }
}

}  // namespace
}  // namespace fulcrum::select
