#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "stages/select/strategy.h"
#include "tbb/task_arena.h"
#include "tests/unit/stages/select/small_pool.h"

namespace fulcrum::select {
namespace {

using ::testing::HasSubstr;

TEST(StrategyRegistryTest, HoldsEveryStrategyOfTheMethod) {
  for (const char* name :
       {"alevs",  "dbalevs",   "random",         "uncertainty",         "lev-on-all", "top-lev",
        "ted",    "quire",     "nearopt",        "most-confident",      "hybrid",     "adaptive-herding",
        "margin", "entropy",   "k-center",       "uncertainty-herding", "herding",    "typical",
        "badge",  "committee", "least-confident"}) {
    EXPECT_TRUE(MakeStrategy(name).ok()) << name;
  }
}

TEST(StrategyRegistryTest, EveryEntryExplainsItselfInOneLine) {
  std::set<std::string> names;
  for (const StrategyEntry& entry : Strategies()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name << " is listed twice";
    for (const std::string& text : {entry.summary, entry.when_to_use}) {
      EXPECT_FALSE(text.empty()) << entry.name;
      EXPECT_EQ(text.find('\n'), std::string::npos) << entry.name;
    }
  }
}

TEST(StrategyRegistryTest, AnUnknownNameListsThoseThereAre) {
  const auto strategy = MakeStrategy("dbalev");
  ASSERT_FALSE(strategy.ok());
  EXPECT_EQ(strategy.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(strategy.status().message()), HasSubstr("'dbalev'"));
  EXPECT_THAT(std::string(strategy.status().message()), HasSubstr("alevs, dbalevs, quire"));
}

/// What holds for all of them, whatever their rule.
class EveryStrategyTest : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryStrategyTest, NaNInWhatItIsGivenIsAnErrorThatNamesTheRowOrDoesNotMatter) {
  constexpr RowIndex kRow = 40;
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const SmallPool pool({.rows = 50, .seed = 4});
  Candidates candidates = pool.candidates(7);
  std::vector<double> confidence(candidates.confidence.begin(), candidates.confidence.end());
  std::vector<double> pool_leverage(candidates.pool_leverage.begin(), candidates.pool_leverage.end());
  std::vector<double> margin(candidates.margin.begin(), candidates.margin.end());
  Matrix<double> probabilities = Matrix<double>::CopyOf(candidates.probabilities);
  confidence[kRow] = pool_leverage[kRow] = margin[kRow] = probabilities(kRow, 1) = kNaN;
  std::vector<Group> groups(candidates.groups.begin(), candidates.groups.end());
  std::vector<std::vector<double>> leverages;
  leverages.reserve(groups.size());
  for (Group& group : groups) {
    std::vector<double>& leverage = leverages.emplace_back(group.leverage.begin(), group.leverage.end());
    for (std::size_t i = 0; i < leverage.size(); ++i) {
      if (group.rows[i] == kRow) leverage[i] = kNaN;
    }
    group.leverage = leverage;
  }
  candidates.confidence = confidence;
  candidates.margin = margin;
  candidates.probabilities = probabilities.view();
  candidates.pool_leverage = pool_leverage;
  candidates.groups = groups;
  const auto strategy = MakeStrategy(GetParam());
  const auto selection = (*strategy)->Select(candidates);
  const Requirements needs = (*strategy)->requirements();
  if (needs.confidence || needs.probabilities || needs.margin || needs.class_groups || needs.pool_leverage) {
    EXPECT_EQ(selection.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(selection.status().message()), HasSubstr("row 40 of the pool"));
  } else {
    ASSERT_TRUE(selection.ok()) << selection.status();
    EXPECT_EQ(selection->picks.size(), 7u);
  }
}

TEST_P(EveryStrategyTest, PicksDifferentUnlabeledRowsAndTheSameOnesAgain) {
  for (const std::size_t classes : {2, 3}) {
    const SmallPool pool({.rows = 50, .classes = classes, .seed = 4});
    for (const std::size_t batch : {1, 7}) {
      const Candidates candidates = pool.candidates(batch);
      const auto strategy = MakeStrategy(GetParam());
      ASSERT_TRUE(strategy.ok());
      const auto selection = (*strategy)->Select(candidates);
      ASSERT_TRUE(selection.ok()) << selection.status();
      const std::vector<RowIndex> rows = RowsOf(*selection);
      EXPECT_EQ(std::set<RowIndex>(rows.begin(), rows.end()).size(), batch);
      for (const RowIndex row : rows) EXPECT_EQ(candidates.labels[row], kUnlabeled);
      EXPECT_EQ(RowsOf(*(*strategy)->Select(candidates)), rows);
    }
  }
}

TEST_P(EveryStrategyTest, PermutingThePoolPermutesTheBatch) {
  const std::string name = GetParam();
  // These draw rows by their position.
  if (name == "random" || name == "badge" || name == "nearopt" || name == "typical") GTEST_SKIP();
  const SmallPool pool({.rows = 50, .classes = 3, .seed = 9});
  // The labeled rows stay first: committee draws from their list.
  std::vector<RowIndex> order(50);
  std::iota(order.begin(), order.end(), RowIndex{0});
  Random(1).Shuffle(std::span(order).subspan(6));
  const SmallPool permuted(pool, order);
  const auto strategy = *MakeStrategy(name);
  // Few picks: two rows that cover nothing but each other tie for herding, and ties go to the smaller row.
  const auto expected = strategy->Select(pool.candidates(5));
  const auto actual = strategy->Select(permuted.candidates(5));
  ASSERT_TRUE(expected.ok() && actual.ok()) << expected.status() << actual.status();
  std::vector<RowIndex> rows;
  for (const RowIndex row : RowsOf(*actual)) rows.push_back(order[row]);
  EXPECT_EQ(rows, RowsOf(*expected));
}

TEST_P(EveryStrategyTest, GivesWhatIsLeftWhenThatIsLess) {
  const SmallPool pool({.rows = 12, .labels_per_class = 4, .seed = 5});
  const auto selection = (*MakeStrategy(GetParam()))->Select(pool.candidates(20));
  ASSERT_TRUE(selection.ok()) << selection.status();
  EXPECT_THAT(RowsOf(*selection), ::testing::UnorderedElementsAre(8, 9, 10, 11));
}

TEST_P(EveryStrategyTest, DoesNotDependOnTheNumberOfThreads) {
  const SmallPool pool({.rows = 1500, .labels_per_class = 5, .seed = 6});
  const Candidates candidates = pool.candidates(12);
  const auto strategy = *MakeStrategy(GetParam());
  tbb::task_arena one_thread(1), more_threads(2);
  const auto expected = one_thread.execute([&] { return strategy->Select(candidates); });
  const auto actual = more_threads.execute([&] { return strategy->Select(candidates); });
  ASSERT_TRUE(expected.ok() && actual.ok()) << expected.status();
  ASSERT_EQ(RowsOf(*actual), RowsOf(*expected));
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(actual->picks[i].gain, expected->picks[i].gain);
  EXPECT_EQ(actual->certificate.upper_bound, expected->certificate.upper_bound);
}

std::vector<std::string> AllNames() {
  std::vector<std::string> names;
  for (const StrategyEntry& entry : Strategies()) names.push_back(entry.name);
  return names;
}

std::string TestName(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryStrategyTest, ::testing::ValuesIn(AllNames()), TestName);

}  // namespace
}  // namespace fulcrum::select
