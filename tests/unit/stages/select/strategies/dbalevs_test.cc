#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "stages/select/strategy.h"
#include "tests/unit/stages/select/greedy/set_function_reference.h"
#include "tests/unit/stages/select/small_pool.h"

namespace fulcrum::select {
namespace {

using ::testing::HasSubstr;

std::vector<std::size_t> LabeledPositions(const Candidates& candidates, const Group& group) {
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < group.rows.size(); ++i) {
    if (candidates.labels[group.rows[i]] != kUnlabeled) positions.push_back(i);
  }
  return positions;
}

/// The naive greedy's rows of one group.
std::vector<RowIndex> ReferenceRows(const Candidates& candidates, const Group& group, std::size_t share,
                                    double score_factor = 1) {
  std::vector<double> scores(group.leverage.begin(), group.leverage.end());
  for (double& score : scores) score *= score_factor;
  const std::vector<std::size_t> labeled = LabeledPositions(candidates, group);
  std::vector<RowIndex> rows;
  for (const std::size_t position : ReferenceGreedy({.rows = group.rows,
                                    .scores = scores,
                                    .kernel = group.kernel,
                                    .labeled = labeled,
                                    .batch = share,
                                    .alpha = candidates.alpha})) {
    rows.push_back(group.rows[position]);
  }
  return rows;
}

std::vector<RowIndex> RowsOfClass(const Selection& selection, ClassIndex class_index) {
  std::vector<RowIndex> rows;
  for (const Pick& pick : selection.picks) {
    if (pick.class_index == class_index) rows.push_back(pick.row);
  }
  return rows;
}

TEST(DbalevsTest, IsTheNaiveGreedyInEachClass) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    for (const std::size_t classes : {2, 3}) {
      const SmallPool pool({.rows = 90, .classes = classes, .seed = seed});
      const Candidates candidates = pool.candidates(4 * classes);
      const auto selection = MakeDbalevs()->Select(candidates);
      ASSERT_TRUE(selection.ok()) << selection.status();
      for (std::size_t c = 0; c < classes; ++c) {
        EXPECT_EQ(RowsOfClass(*selection, static_cast<ClassIndex>(c)), ReferenceRows(candidates, pool.group(c), 4));
      }
    }
  }
}

TEST(DbalevsTest, AppliesTheScale) {
  const SmallPool pool({.rows = 80, .seed = 3});
  Candidates candidates = pool.candidates(10);
  candidates.alpha = 1;
  for (std::size_t c = 0; c < 2; ++c) {
    const Group& group = pool.group(c);
    const double mean_factor = static_cast<double>(group.rows.size()) / static_cast<double>(group.rank);
    candidates.scale = LeverageScale::kMean;
    EXPECT_EQ(RowsOfClass(*MakeDbalevs()->Select(candidates), static_cast<ClassIndex>(c)),
              ReferenceRows(candidates, group, 5, mean_factor));
    candidates.scale = LeverageScale::kMax;
    EXPECT_EQ(RowsOfClass(*MakeDbalevs()->Select(candidates), static_cast<ClassIndex>(c)),
              ReferenceRows(candidates, group, 5, 1 / *std::ranges::max_element(group.leverage)));
  }
}

TEST(DbalevsTest, PicksComeLargestGainFirstWithTheirLeverage) {
  const SmallPool pool({.rows = 80, .seed = 6});
  const auto selection = MakeDbalevs()->Select(pool.candidates(12));
  ASSERT_TRUE(selection.ok());
  for (std::size_t i = 1; i < selection->picks.size(); ++i) {
    EXPECT_GE(selection->picks[i - 1].gain, selection->picks[i].gain);
  }
  for (const Pick& pick : selection->picks) {
    const Group& group = pool.group(static_cast<std::size_t>(pick.class_index));
    const auto position = std::ranges::find(group.rows, pick.row) - group.rows.begin();
    EXPECT_EQ(pick.leverage, group.leverage[static_cast<std::size_t>(position)]);
  }
}

TEST(DbalevsTest, CertifiesTheSumOverTheClasses) {
  const SmallPool pool({.rows = 24, .seed = 2});
  const Candidates candidates = pool.candidates(6);
  const auto selection = MakeDbalevs()->Select(candidates);
  ASSERT_TRUE(selection.ok());
  ASSERT_TRUE(selection->has_certificate);
  double best = 0, value = 0;
  for (std::size_t c = 0; c < 2; ++c) {
    const Group& group = pool.group(c);
    const std::vector<std::size_t> labeled = LabeledPositions(candidates, group);
    const GreedyProblem problem = {.rows = group.rows,
                                   .scores = group.leverage,
                                   .kernel = group.kernel,
                                   .labeled = labeled,
                                   .batch = 3,
                                   .alpha = candidates.alpha};
    best += ReferenceBest(problem);
    std::vector<std::size_t> set = labeled;
    for (const std::size_t position : ReferenceGreedy(problem)) set.push_back(position);
    value += ReferenceValue(problem, set, set.size());
  }
  EXPECT_NEAR(selection->certificate.value, value, 1e-12);
  EXPECT_GE(selection->certificate.upper_bound, best - 1e-9);
}

TEST(DbalevsTest, DoesNotDependOnTheOrderInsideAGroup) {
  SmallPoolSettings settings = {.rows = 70, .seed = 8};
  const SmallPool in_order(settings);
  settings.shuffle_groups = true;
  const SmallPool shuffled(settings);
  const auto expected = MakeDbalevs()->Select(in_order.candidates(9));
  const auto actual = MakeDbalevs()->Select(shuffled.candidates(9));
  ASSERT_TRUE(expected.ok() && actual.ok());
  EXPECT_EQ(RowsOf(*actual), RowsOf(*expected));
  EXPECT_EQ(actual->certificate.value, expected->certificate.value);
}

TEST(DbalevsTest, AClassWithoutUnlabeledRowsGivesItsShareAway) {
  const std::vector<ClassIndex> labels = {0, 1, -1, -1, -1};
  const RowList rows_0 = {0}, rows_1 = {1, 2, 3, 4};
  const std::vector<double> leverage_0 = {1}, leverage_1 = {.1, .2, .3, .4};
  const Matrix<double> kernel = Matrix<double>::Zero(4, 4);
  const std::vector<Group> groups = {
      {.class_index = 0, .rows = rows_0, .leverage = leverage_0, .rank = 1},
      {.class_index = 1, .rows = rows_1, .leverage = leverage_1, .rank = 1, .kernel = kernel.view()},
      {.class_index = 2}};
  Candidates candidates;
  candidates.labels = labels;
  candidates.groups = groups;
  candidates.batch = 3;
  const auto selection = MakeDbalevs()->Select(candidates);
  ASSERT_TRUE(selection.ok()) << selection.status();
  EXPECT_THAT(RowsOf(*selection), ::testing::ElementsAre(4, 3, 2));
}

TEST(DbalevsTest, RejectsAlphaOutsideItsRange) {
  const SmallPool pool({});
  Candidates candidates = pool.candidates(4);
  for (const double alpha : {-0.1, 1.5, std::nan("")}) {
    candidates.alpha = alpha;
    const auto selection = MakeDbalevs()->Select(candidates);
    ASSERT_FALSE(selection.ok());
    EXPECT_EQ(selection.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(selection.status().message()), HasSubstr("alpha is"));
  }
}

TEST(DbalevsTest, RejectsAKernelOutsideTheUnitInterval) {
  const SmallPool linear({.kernel = {.type = kernel::KernelType::kLinear}});
  const auto selection = MakeDbalevs()->Select(linear.candidates(4));
  ASSERT_FALSE(selection.ok());
  EXPECT_EQ(selection.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(selection.status().message()), HasSubstr("[0, 1], but linear"));

  const SmallPool poly({.kernel = {.type = kernel::KernelType::kPoly, .degree = 2}});
  const auto too_large = MakeDbalevs()->Select(poly.candidates(4));
  ASSERT_FALSE(too_large.ok());
  EXPECT_THAT(std::string(too_large.status().message()), HasSubstr("Normalize the kernel"));
}

TEST(DbalevsTest, TakesAKernelThatHappensToLieInTheUnitInterval) {
  const SmallPool even({.kernel = {.type = kernel::KernelType::kPoly, .degree = 2, .normalize = true}});
  EXPECT_TRUE(MakeDbalevs()->Select(even.candidates(4)).ok());
}

}  // namespace
}  // namespace fulcrum::select
