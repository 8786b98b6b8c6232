// `fulcrum select` with numbers at the ends of what a double can hold: a batch or a clear error, never a crash, a hang
// or a batch that was chosen by NaN.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/program_fixture.h"

namespace fulcrum::testing {
namespace {

using Words = std::vector<std::string>;

constexpr std::size_t kRows = 300;
constexpr std::size_t kBatch = 10;

const char* const kNumbers[] = {"nan", "inf", "-inf", "1e-320", "1e-155", "1e30", "1e308", "-0", "9007199254740992"};

/// Values that options refuse by themselves are tried with one strategy only.
bool IsRefusedEarly(const std::string& number) {
  return number == "nan" || number == "inf" || number == "-inf";
}

void AddCombinations(const Words& strategies, const Words& engines, const std::string& option, const Words& more,
                     std::vector<Words>& combinations) {
  for (const std::string number : kNumbers) {
    for (const std::string& strategy : strategies) {
      for (const std::string& engine : engines) {
        Words words = {"--strategy", strategy, "--engine", engine, option + "=" + number};
        words.insert(words.end(), more.begin(), more.end());
        combinations.push_back(std::move(words));
        if (IsRefusedEarly(number)) break;
      }
      if (IsRefusedEarly(number)) break;
    }
  }
}

std::vector<Words> AllCombinations() {
  const Words all = {"hybrid",  "alevs",      "dbalevs", "uncertainty",    "quire",          "ted",
                     "nearopt", "lev-on-all", "top-lev", "random",         "most-confident", "adaptive-herding",
                     "badge",   "committee",  "entropy", "least-confident"};
  const Words with_leverage = {"hybrid", "alevs", "dbalevs", "lev-on-all"};
  const Words engines = {"dense", "krylov", "tiled", "landmark"};
  std::vector<Words> combinations;
  AddCombinations(all, {"auto"}, "--svm-sigma", {}, combinations);
  AddCombinations(all, {"auto"}, "--svm-c", {}, combinations);
  AddCombinations({"hybrid", "dbalevs", "quire", "ted", "uncertainty"}, {"auto"}, "--svm-poly-c",
                  {"--svm-kernel", "poly"}, combinations);
  AddCombinations(with_leverage, engines, "--sigma", {}, combinations);
  AddCombinations({"dbalevs", "lev-on-all"}, engines, "--tau", {}, combinations);
  AddCombinations({"dbalevs"}, {"krylov", "landmark"}, "--alpha", {}, combinations);
  AddCombinations({"dbalevs", "lev-on-all"}, engines, "--poly-c", {"--kernel", "poly", "--normalize-kernel"},
                  combinations);
  return combinations;
}

class SelectExtremeNumbersTest : public ProgramTest {
 protected:
  SelectExtremeNumbersTest() {
    WritePool(kRows);
    WriteLabels(20);
  }

  /// Empty, or what is wrong with how the program ended.
  std::string Complaint(const Words& options) const {
    Words words = {"--batch", std::to_string(kBatch), "--threads", "1", "--quiet"};
    words.insert(words.end(), options.begin(), options.end());
    const ProcessResult result = Select(words);
    if (result.exit_code == 2 || result.exit_code == 65) {
      return result.standard_error.find("fulcrum select: ") == 0 ? "" : "no message: " + result.standard_error;
    }
    if (result.exit_code != 0) return "exit code " + std::to_string(result.exit_code) + ": " + result.standard_error;
    std::set<std::string> ids;
    for (const auto& row : ParseCsv(result.standard_output)) {
      ids.insert(row.at("id"));
      if (row.at("gain").find("nan") != std::string::npos) return "a gain is not a number";
      if (row.at("leverage").find("nan") != std::string::npos) return "a leverage is not a number";
    }
    return ids.size() == kBatch ? "" : "a batch of " + std::to_string(ids.size()) + " rows";
  }
};

TEST_F(SelectExtremeNumbersTest, EveryNumberForEveryStrategyAndEngine) {
  const std::vector<Words> combinations = AllCombinations();
  EXPECT_GE(combinations.size(), 200u);
  std::vector<std::string> complaints(combinations.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < combinations.size(); i = next++) complaints[i] = Complaint(combinations[i]);
  };
  {
    const std::jthread other(work);
    work();
  }
  for (std::size_t i = 0; i < combinations.size(); ++i) {
    EXPECT_EQ(complaints[i], "") << ::testing::PrintToString(combinations[i]);
  }
}

TEST_F(SelectExtremeNumbersTest, FeaturesThatNoKernelCanTakeAreRefusedWithTheirRow) {
  folder_.Write("pool.csv", PoolText(kRows) + "huge,pos,1e200,1,1,1\n");
  for (const std::string strategy : {"uncertainty", "dbalevs", "hybrid", "ted"}) {
    const ProcessResult result = Select({"--normalize", "none", "--strategy", strategy});
    EXPECT_EQ(result.exit_code, 2) << strategy << result.standard_error;
    EXPECT_THAT(result.standard_error, ::testing::HasSubstr("row 300 of the pool")) << strategy;
  }
}

TEST_F(SelectExtremeNumbersTest, ASteepPolynomialIsRefusedInsteadOfACrash) {
  const ProcessResult result =
      Select({"--strategy", "uncertainty", "--svm-kernel", "poly", "--svm-degree", "1000", "--normalize", "none"});
  EXPECT_EQ(result.exit_code, 2) << result.standard_error;
  EXPECT_THAT(result.standard_error, ::testing::HasSubstr("smaller degree"));
}

TEST_F(SelectExtremeNumbersTest, MorePairsOfClassesThanMemoryHasRoomForAreRefused) {
  WritePool(3000);
  std::string labels = "id,label\n";
  for (std::size_t row = 0; row < 2900; ++row) labels += RowId(row) + ",class" + std::to_string(row) + "\n";
  folder_.Write("labels.csv", labels);
  const ProcessResult result = Select({"--strategy", "uncertainty", "--memory", "2GiB"});
  EXPECT_EQ(result.exit_code, 75) << result.standard_error;
  EXPECT_THAT(result.standard_error, ::testing::HasSubstr("2900 classes"));
}

}  // namespace
}  // namespace fulcrum::testing
