// `fulcrum select` with numbers at the ends of what a double can hold, in every option, as a feature and as a cost: a
// batch or a clear error within ten seconds of processor time, never a crash, a hang or a batch that was chosen by NaN.
//
// Every strategy, engine, option and number is in each run, but not every combination of them; with
// FULCRUM_EVERY_NUMBER in the environment every combination is tried.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "stages/select/strategy.h"
#include "tests/integration/program_fixture.h"

namespace fulcrum::testing {
namespace {

using Words = std::vector<std::string>;

constexpr std::size_t kRows = 2000;
constexpr std::size_t kBatch = 10;
// Of processor time.
constexpr std::uint64_t kMostSeconds = 10;
// Without FULCRUM_EVERY_NUMBER one of so many combinations is tried.
constexpr std::size_t kOneOf = 7;

const std::array<std::string, 9> kNumbers = {"nan",  "inf",   "-inf", "1e-320",          "1e-155",
                                             "1e30", "1e308", "-0",   "9007199254740992"};

/// Where a number is given: an option with what it needs to matter, and how the number is written into it.
struct Place {
  std::string option;
  Words more = {};
  bool is_of_leverage = false;  ///< with every engine
  std::string prefix = {};      ///< before the number
  bool may_select_less = false;
};

/// Options of `--stream`, which answers rows instead of selecting a batch.
constexpr const char* kStreamOptions[] = {"--novelty", "--drift-rate"};

/// A run of the program.
struct Trial {
  Words options;
  std::string pool = "pool.csv";
  bool may_select_less = false;
};

const std::vector<Place>& Places() {
  static const auto* const places = new std::vector<Place>{
      {.option = "--alpha", .is_of_leverage = true},
      {.option = "--sigma", .is_of_leverage = true},
      {.option = "--poly-c", .more = {"--kernel", "poly", "--normalize-kernel"}, .is_of_leverage = true},
      {.option = "--tau", .is_of_leverage = true},
      {.option = "--svm-sigma"},
      {.option = "--svm-poly-c", .more = {"--svm-kernel", "poly"}},
      {.option = "--svm-c"},
      {.option = "--class-weights", .prefix = "pos="},
      {.option = "--cost-budget", .more = {"--cost", "f1"}, .may_select_less = true},
  };
  return *places;
}

bool TryEverything() {
  return std::getenv("FULCRUM_EVERY_NUMBER") != nullptr;
}

/// Values that options refuse by themselves are tried with one strategy only.
bool IsRefusedEarly(const std::string& number) {
  return number == "nan" || number == "inf" || number == "-inf";
}

bool UsesLeverage(const select::StrategyEntry& strategy) {
  const select::Requirements needs = strategy.make()->requirements();
  return needs.class_groups || needs.pool_leverage;
}

std::vector<Trial> AllCombinations() {
  std::vector<Trial> combinations;
  // Sums of positions: every strategy meets every option and every number before anything is tried twice.
  const auto is_chosen = [](std::size_t sum) { return TryEverything() || sum % kOneOf == 0; };
  for (std::size_t p = 0; p < Places().size(); ++p) {
    const Place& place = Places()[p];
    for (std::size_t n = 0; n < kNumbers.size(); ++n) {
      const auto& strategies = select::Strategies();
      for (std::size_t s = 0; s < strategies.size(); ++s) {
        Words engines = {"auto"};
        if (place.is_of_leverage && UsesLeverage(strategies[s])) engines = {"dense", "krylov", "tiled", "landmark"};
        for (std::size_t e = 0; e < engines.size(); ++e) {
          const bool early = IsRefusedEarly(kNumbers[n]);
          if (early ? s + e > 0 : !is_chosen(p + n + s + 2 * e)) continue;
          Words words = {"--strategy", strategies[s].name, "--engine", engines[e]};
          words.push_back(place.option + "=" + place.prefix + kNumbers[n]);
          words.insert(words.end(), place.more.begin(), place.more.end());
          combinations.push_back({std::move(words), "pool.csv", place.may_select_less});
        }
      }
    }
  }
  return combinations;
}

class SelectExtremeNumbersTest : public ProgramTest {
 protected:
  SelectExtremeNumbersTest() {
    WritePool(kRows);
    WriteLabels(20);
  }

  /// Empty, or what is wrong with how the program ended.
  std::string Complaint(const Trial& trial) const {
    Words words = {
        "select",    "--pool", File(trial.pool), "--labels", File("labels.csv"), "--batch", std::to_string(kBatch),
        "--threads", "1",      "--quiet"};
    words.insert(words.end(), trial.options.begin(), trial.options.end());
    const ProcessResult result = Run(words, {.cpu_seconds = kMostSeconds});
    if (result.signal == SIGXCPU) return "no end within " + std::to_string(kMostSeconds) + " s";
    if (result.signal != 0) return "signal " + std::to_string(result.signal);
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
    if (ids.size() == kBatch || trial.may_select_less) return "";
    return "a batch of " + std::to_string(ids.size()) + " rows";
  }

  void ExpectNoComplaints(const std::vector<Trial>& trials) const {
    std::vector<std::string> complaints(trials.size());
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      for (std::size_t i = next++; i < trials.size(); i = next++) {
        complaints[i] = Complaint(trials[i]);
      }
    };
    {
      const std::jthread other(work);
      work();
    }
    for (std::size_t i = 0; i < trials.size(); ++i) {
      EXPECT_EQ(complaints[i], "") << trials[i].pool << " " << ::testing::PrintToString(trials[i].options);
    }
  }
};

TEST_F(SelectExtremeNumbersTest, EveryOptionThatIsANumberIsTried) {
  std::set<std::string> known;
  for (const Place& place : Places()) known.insert(place.option);
  known.insert(std::begin(kStreamOptions), std::end(kStreamOptions));
  std::istringstream help(Run({"select", "--help"}).standard_output);
  std::set<std::string> found;
  for (std::string line; std::getline(help, line);) {
    std::istringstream words(line);
    std::string option, type;
    words >> option >> type;
    if (option.starts_with("--") && type.starts_with("NUMBER")) found.insert(option);
  }
  EXPECT_GE(found.size(), 7u);
  for (const std::string& option : found) EXPECT_TRUE(known.contains(option)) << "add " << option << " to Places()";
}

TEST_F(SelectExtremeNumbersTest, EveryNumberForEveryStrategyAndEngine) {
  const std::vector<Trial> trials = AllCombinations();
  EXPECT_GE(trials.size(), 150u);
  std::set<std::string> strategies;
  for (const Trial& trial : trials) strategies.insert(trial.options[1]);
  EXPECT_EQ(strategies.size(), select::Strategies().size());
  ExpectNoComplaints(trials);
}

TEST_F(SelectExtremeNumbersTest, EveryNumberOfAStreamIsRefusedOrEveryRowIsAnswered) {
  folder_.Write("rows.csv", "id,f0,f1,f2,f3\na,1,1,1,1\nb,-1,2,0,1\nc,0,0,0,0\n");
  for (const char* const option : kStreamOptions) {
    for (const std::string& number : kNumbers) {
      const std::string words = std::string(" select --stream --budget 50% --quiet --threads 1 --pool ") +
                                File("pool.csv") + " --labels " + File("labels.csv") + " " + option + "=" + number;
      const ProcessResult result = RunProcess({"/bin/sh", "-c", FULCRUM_PROGRAM + words + " < " + File("rows.csv")},
                                              {.cpu_seconds = kMostSeconds});
      EXPECT_EQ(result.signal, 0) << words;
      if (result.exit_code == 0) {
        EXPECT_EQ(ParseCsv(result.standard_output).size(), 3u) << words;
        EXPECT_EQ(result.standard_output.find("nan"), std::string::npos) << words;
      } else {
        EXPECT_EQ(result.exit_code, 2) << words;
        EXPECT_EQ(result.standard_error.find("fulcrum select: "), 0u) << words << result.standard_error;
      }
    }
  }
}

TEST_F(SelectExtremeNumbersTest, EveryNumberAsAFeatureAndAsACost) {
  const std::string pool = PoolText(kRows);
  std::string with_costs;
  {
    std::istringstream lines(pool);
    for (std::string line; std::getline(lines, line);) {
      with_costs += line + (with_costs.empty() ? ",price\n" : ",2\n");
    }
  }
  std::vector<Trial> trials;
  for (std::size_t n = 0; n < kNumbers.size(); ++n) {
    const std::string feature = "feature-" + std::to_string(n) + ".csv", cost = "cost-" + std::to_string(n) + ".csv";
    folder_.Write(feature, pool + "x,pos," + kNumbers[n] + ",1,1,1\n");
    folder_.Write(cost, with_costs + "x,pos,1,1,1,1," + kNumbers[n] + "\n");
    const auto& strategies = select::Strategies();
    for (std::size_t s = 0; s < strategies.size(); ++s) {
      if (!TryEverything() && (n + s) % kOneOf != 0) continue;
      for (const char* const normalize : {"none", "zscore,unit", "robust"}) {
        trials.push_back({{"--strategy", strategies[s].name, "--normalize", normalize}, feature});
      }
      trials.push_back({{"--strategy", strategies[s].name}, feature});
      trials.push_back({{"--strategy", strategies[s].name, "--cost", "price"}, cost});
    }
  }
  ExpectNoComplaints(trials);
}

TEST_F(SelectExtremeNumbersTest, FeaturesThatNoKernelCanTakeAreRefusedWithTheirRow) {
  folder_.Write("pool.csv", PoolText(kRows) + "huge,pos,1e200,1,1,1\n");
  for (const std::string strategy : {"uncertainty", "dbalevs", "hybrid", "ted"}) {
    const ProcessResult result = Select({"--normalize", "none", "--strategy", strategy});
    EXPECT_EQ(result.exit_code, 2) << strategy << result.standard_error;
    EXPECT_THAT(result.standard_error, ::testing::HasSubstr("row 2000 of the pool")) << strategy;
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
