// `fulcrum select` on good input: what it writes, and that it writes the same again.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/integration/program_fixture.h"

namespace fulcrum::testing {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class SelectTest : public ProgramTest {
 protected:
  SelectTest() {
    WritePool(200);
    WriteLabels(6);
  }
  nlohmann::json Report() const { return nlohmann::json::parse(Read("report.json")); }
};

TEST_F(SelectTest, PrintsTheBatchAndNothingElseOnAPipe) {
  const ProcessResult result = Select({"--batch", "8"});
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_THAT(result.standard_error, IsEmpty());
  EXPECT_THAT(result.standard_output, StartsWith("rank,id,class,leverage,gain\n"));
  const CsvRows batch = ParseCsv(result.standard_output);
  ASSERT_EQ(batch.size(), 8u);
  std::set<std::string> ids;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    EXPECT_EQ(batch[i].at("rank"), std::to_string(i + 1));
    EXPECT_THAT(batch[i].at("class"), AnyOf("neg", "pos"));
    ids.insert(batch[i].at("id"));
  }
  EXPECT_EQ(ids.size(), 8u);
  for (std::size_t row = 0; row < 6; ++row) EXPECT_EQ(ids.count(RowId(row)), 0u) << "labeled already";
}

TEST_F(SelectTest, ScoresOfAClassSumToItsRankAndAgreeWithBatchAndReport) {
  const ProcessResult result = Select({"--strategy", "dbalevs", "--batch", "6", "--out", File("batch.csv"), "--scores",
                                       File("scores.csv"), "--report", File("report.json")});
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_THAT(result.standard_output, IsEmpty());
  EXPECT_THAT(Files(), ElementsAre("batch.csv", "labels.csv", "pool.csv", "report.json", "scores.csv"));

  std::map<std::string, double> sums;
  std::map<std::string, std::string> leverage_of;
  const CsvRows scores = ParseCsv(Read("scores.csv"));
  ASSERT_EQ(scores.size(), 200u);
  for (std::size_t row = 0; row < scores.size(); ++row) {
    EXPECT_EQ(scores[row].at("id"), RowId(row));
    EXPECT_EQ(scores[row].at("labeled"), row < 6 ? "1" : "0");
    sums[scores[row].at("class")] += std::stod(scores[row].at("leverage"));
    leverage_of[scores[row].at("id")] = scores[row].at("leverage");
  }
  for (const auto& pick : ParseCsv(Read("batch.csv"))) {
    EXPECT_EQ(pick.at("leverage"), leverage_of[pick.at("id")]);
  }
  const nlohmann::json report = Report();
  std::size_t rows = 0;
  ASSERT_EQ(report["classes"].size(), 2u);
  for (const auto& group : report["classes"]) {
    EXPECT_NEAR(sums[group["class"]], group["k"].get<double>(), 1e-6);
    EXPECT_GE(group["tau_reached"].get<double>(), 0.5);
    EXPECT_FALSE(group["engine"].get<std::string>().empty());
    EXPECT_TRUE(group["seconds"].is_object());
    EXPECT_EQ(group["given"], 3);
    rows += group["m"].get<std::size_t>();
  }
  EXPECT_EQ(rows, 200u);
}

TEST_F(SelectTest, TheReportTellsHowGoodTheBatchIs) {
  ASSERT_EQ(Select({"--strategy", "dbalevs", "--batch", "5", "--tau", "0.9", "--out", File("b.csv"), "--report",
                    File("report.json")})
                .exit_code,
            0);
  const nlohmann::json report = Report();
  const nlohmann::json& batch = report["batch"];
  EXPECT_EQ(batch["asked"], 5);
  EXPECT_EQ(batch["given"], 5);
  EXPECT_GT(batch["F"].get<double>(), 0);
  EXPECT_LE(batch["F"].get<double>(), batch["bound"].get<double>() * (1 + 1e-12));
  EXPECT_DOUBLE_EQ(batch["ratio"].get<double>(), batch["F"].get<double>() / batch["bound"].get<double>());
  EXPECT_GE(report["svm"]["support_vectors"].get<int>(), 2);
  EXPECT_GT(report["svm"]["iterations"].get<int>(), 0);
  EXPECT_EQ(report["settings"]["tau"], 0.9);
  EXPECT_EQ(report["inputs"]["classes"], nlohmann::json({"neg", "pos"}));
  EXPECT_EQ(report["inputs"]["labeled"], 6);
  EXPECT_EQ(report["fulcrum"]["version"], FULCRUM_VERSION);
  EXPECT_GT(report["seconds"]["total"].get<double>(), 0);
  EXPECT_THAT(report["notes"], IsEmpty());
}

TEST_F(SelectTest, TheBatchDoesNotDependOnThreadsOrEngine) {
  const std::string expected = Select({"--threads", "1"}).standard_output;
  EXPECT_EQ(Select({"--threads", "2"}).standard_output, expected);
  const CsvRows dense = ParseCsv(Select({"--engine", "dense"}).standard_output);
  const CsvRows automatic = ParseCsv(expected);
  ASSERT_EQ(dense.size(), automatic.size());
  for (std::size_t i = 0; i < dense.size(); ++i) {
    EXPECT_EQ(dense[i].at("id"), automatic[i].at("id"));
    EXPECT_NEAR(std::stod(dense[i].at("gain")), std::stod(automatic[i].at("gain")), 1e-7);
  }
}

TEST_F(SelectTest, LandmarksAreRefinedUnlessTheyAreNotToBe) {
  const std::vector<std::string> words = {"--strategy",  "dbalevs", "--engine", "landmark",
                                          "--landmarks", "20",      "--report", File("report.json")};
  for (const bool refine : {true, false}) {
    std::vector<std::string> all = words;
    if (!refine) all.push_back("--no-refine");
    const ProcessResult result = Select(all);
    ASSERT_EQ(result.exit_code, 0) << result.standard_error;
    EXPECT_EQ(Report()["settings"]["refine"], refine);
    for (const auto& group : Report()["classes"]) {
      const auto reason = group["reason"].get<std::string>();
      EXPECT_EQ(reason.find("refined by a product with the whole kernel") != std::string::npos, refine) << reason;
    }
  }
}

TEST_F(SelectTest, EveryStrategyGivesABatch) {
  for (const char* strategy : {"alevs", "dbalevs", "random", "uncertainty", "lev-on-all", "top-lev", "ted", "hybrid",
                               "adaptive-herding", "margin", "entropy", "least-confident", "badge", "committee",
                               "uncertainty-herding", "herding", "k-center", "typical"}) {
    const ProcessResult result = Select({"--strategy", strategy, "--batch", "3", "--report", File("report.json")});
    ASSERT_EQ(result.exit_code, 0) << strategy << ": " << result.standard_error;
    EXPECT_EQ(ParseCsv(result.standard_output).size(), 3u) << strategy;
    EXPECT_EQ(Report()["settings"]["strategy"], strategy);
  }
}

TEST_F(SelectTest, AdaptiveHerdingIsTheDefaultAndDbalevsIfPredictionsAreGiven) {
  ASSERT_EQ(Select({"--out", File("b.csv"), "--report", File("report.json")}).exit_code, 0);
  EXPECT_EQ(Report()["settings"]["strategy"], "adaptive-herding");
  std::string predictions = "id,label\n";
  for (std::size_t row = 0; row < 200; ++row) predictions += RowId(row) + (row < 50 ? ",neg\n" : ",pos\n");
  folder_.Write("p.csv", predictions);
  ASSERT_EQ(Select({"--predictions", File("p.csv"), "--out", File("b.csv"), "--report", File("report.json")}).exit_code,
            0);
  EXPECT_EQ(Report()["settings"]["strategy"], "dbalevs");
}

TEST_F(SelectTest, WithoutTwoClassesTheBatchCoversThePool) {
  folder_.Write("labels.csv", "id,label\n");
  const ProcessResult covered = Select({"--strategy", "herding", "--batch", "5"});
  ASSERT_EQ(covered.exit_code, 0) << covered.standard_error;
  for (const char* strategy : {"adaptive-herding", "alevs", "dbalevs", "margin", "quire", "hybrid"}) {
    const ProcessResult result = Select({"--strategy", strategy, "--batch", "5"});
    ASSERT_EQ(result.exit_code, 0) << strategy << ": " << result.standard_error;
    EXPECT_EQ(result.standard_output, covered.standard_output) << strategy;
    EXPECT_THAT(result.standard_error, HasSubstr("has no labels, so there is no classifier yet"));
  }
  folder_.Write("labels.csv", "id,label\n" + RowId(0) + ",neg\n" + RowId(1) + ",neg\n");
  const ProcessResult one_class = Select({"--strategy", "margin", "--batch", "5"});
  ASSERT_EQ(one_class.exit_code, 0) << one_class.standard_error;
  EXPECT_THAT(one_class.standard_error, HasSubstr("has labels of one class only ('neg')"));
}

TEST_F(SelectTest, ScoresHaveTheProbabilityOfThePredictedClassWhateverTheStrategy) {
  std::map<std::string, std::string> of_margin;
  for (const char* const strategy : {"margin", "adaptive-herding", "dbalevs", "least-confident"}) {
    const ProcessResult result =
        Select({"--strategy", strategy, "--batch", "3", "--out", File("batch.csv"), "--scores", File("scores.csv")});
    ASSERT_EQ(result.exit_code, 0) << result.standard_error;
    for (const auto& row : ParseCsv(Read("scores.csv"))) {
      if (row.at("labeled") == "1") {
        EXPECT_EQ(row.at("probability"), "");
        continue;
      }
      const double probability = std::stod(row.at("probability"));
      EXPECT_GE(probability, 0.5) << "of two classes the more probable one is predicted";
      EXPECT_LE(probability, 1);
      // The classifier is the same for all of them.
      EXPECT_EQ(of_margin.emplace(row.at("id"), row.at("probability")).first->second, row.at("probability"))
          << strategy;
    }
  }
  std::set<std::string> different;
  for (const auto& [id, probability] : of_margin) different.insert(probability);
  EXPECT_GT(different.size(), 50u);
}

TEST_F(SelectTest, ScoresHaveTheProbabilitiesThatWereGiven) {
  std::string text = "id,pos,neg\n";
  for (std::size_t row = 0; row < 200; ++row) text += RowId(row) + (row % 2 == 0 ? ",0.25,0.75\n" : ",0.875,0.125\n");
  folder_.Write("probabilities.csv", text);
  const ProcessResult result = Select({"--predictions", File("probabilities.csv"), "--strategy", "margin", "--out",
                                       File("batch.csv"), "--scores", File("scores.csv")});
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  const CsvRows scores = ParseCsv(Read("scores.csv"));
  EXPECT_EQ(scores[100].at("probability"), "0.75");
  EXPECT_EQ(scores[101].at("probability"), "0.875");
}

TEST_F(SelectTest, PredictionsTakeThePlaceOfTheClassifier) {
  std::string predictions = "id,label\n";
  for (std::size_t row = 0; row < 200; ++row) predictions += RowId(row) + (row < 50 ? ",neg\n" : ",pos\n");
  folder_.Write("predictions.csv", predictions);
  const ProcessResult result = Select(
      {"--predictions", File("predictions.csv"), "--scores", File("scores.csv"), "--report", File("report.json")});
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_TRUE(Report()["svm"].is_null());
  const CsvRows scores = ParseCsv(Read("scores.csv"));
  EXPECT_EQ(scores[1].at("class"), "pos") << "a label counts more than a prediction";
  EXPECT_EQ(scores[49].at("class"), "neg");
  EXPECT_EQ(scores[50].at("class"), "pos");
}

TEST_F(SelectTest, ProbabilitiesTakeThePlaceOfTheClassifierForEveryStrategyThatNeedsThem) {
  // In another order of columns than that of the classes; rows 50 to 55 are in doubt.
  std::string text = "id,pos,neg\n";
  for (std::size_t row = 0; row < 200; ++row) {
    text += RowId(row) + (row >= 50 && row < 56 ? ",0.45,0.55\n" : row < 50 ? ",0.1,0.9\n" : ",0.9,0.1\n");
  }
  folder_.Write("probabilities.csv", text);
  for (const char* const strategy : {"margin", "entropy", "least-confident"}) {
    const ProcessResult result =
        Select({"--predictions", File("probabilities.csv"), "--strategy", strategy, "--batch", "6"});
    ASSERT_EQ(result.exit_code, 0) << result.standard_error;
    std::set<std::string> ids, expected;
    for (const auto& row : ParseCsv(result.standard_output)) {
      ids.insert(row.at("id"));
      EXPECT_EQ(row.at("class"), "neg");
    }
    for (std::size_t row = 50; row < 56; ++row) expected.insert(RowId(row));
    EXPECT_EQ(ids, expected) << strategy;
  }
  for (const char* const strategy : {"badge", "adaptive-herding", "dbalevs", "hybrid"}) {
    const ProcessResult result = Select({"--predictions", File("probabilities.csv"), "--strategy", strategy});
    EXPECT_EQ(result.exit_code, 0) << strategy << ": " << result.standard_error;
  }
  const ProcessResult refused = Select({"--predictions", File("probabilities.csv"), "--strategy", "committee"});
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.standard_error, HasSubstr("committee"));
  folder_.Write("bad.csv", "id,pos,neg\n" + RowId(7) + ",0.9,0.9\n");
  const ProcessResult bad = Select({"--predictions", File("bad.csv"), "--strategy", "margin"});
  EXPECT_NE(bad.exit_code, 0);
  EXPECT_THAT(bad.standard_error, HasSubstr("sum to 1.8"));
}

TEST_F(SelectTest, APredictedClassWithoutLabelsIsNotedAndTakesPart) {
  std::string predictions = "id,label\n";
  for (std::size_t row = 0; row < 200; ++row) predictions += RowId(row) + (row % 4 == 0 ? ",new\n" : ",pos\n");
  folder_.Write("predictions.csv", predictions);
  const ProcessResult result = Select({"--predictions", File("predictions.csv"), "--batch", "9"});
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_THAT(result.standard_error, HasSubstr("note: class 'new' has no labels yet"));
  EXPECT_THAT(result.standard_output, HasSubstr(",new,"));
}

TEST_F(SelectTest, CompressedFilesInAndOut) {
  ASSERT_EQ(Run({"generate", "twonorm", "--rows", "120", "--dims", "5", "--out", File("g.csv.gz")}).exit_code, 0);
  folder_.Write("l.csv", "id,label\n0,a\n1,b\n2,a\n3,b\n");
  const ProcessResult result = Run({"select", "--pool", File("g.csv.gz"), "--labels", File("l.csv"), "--batch", "4"});
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  for (const auto& pick : ParseCsv(result.standard_output)) EXPECT_GE(std::stoi(pick.at("id")), 4);
  ASSERT_EQ(Run({"select", "--pool", File("g.csv.gz"), "--labels", File("l.csv"), "--out", File("b.csv.gz")}).exit_code,
            0);
  EXPECT_EQ(Read("b.csv.gz").substr(0, 2), "\x1f\x8b");
}

TEST_F(SelectTest, MoreThanIsLeftGivesWhatIsLeftAndSaysSo) {
  WriteLabels(197);
  const ProcessResult result = Select({"--batch", "10", "--report", File("report.json")});
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_EQ(ParseCsv(result.standard_output).size(), 3u);
  EXPECT_THAT(result.standard_error, HasSubstr("--batch asks for 10 rows, but only 3 could be given"));
  EXPECT_EQ(Report()["batch"]["asked"], 10);
  EXPECT_EQ(Report()["batch"]["given"], 3);
  EXPECT_THAT(Select({"--batch", "10", "--quiet"}).standard_error, IsEmpty());
}

TEST_F(SelectTest, NothingLeftHasAnExitCodeOfItsOwn) {
  WriteLabels(200);
  const ProcessResult result = Select({"--out", File("batch.csv")});
  EXPECT_EQ(result.exit_code, 99);
  EXPECT_THAT(result.standard_error, HasSubstr("nothing left to select: all 200 rows"));
  EXPECT_THAT(Files(), ElementsAre("labels.csv", "pool.csv"));
}

TEST_F(SelectTest, VerboseNamesTheStages) {
  const ProcessResult result = Select({"--verbose"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.standard_error, HasSubstr("read"));
  EXPECT_THAT(result.standard_error, HasSubstr("normalize"));
  EXPECT_THAT(result.standard_output, StartsWith("rank,"));
}

TEST_F(SelectTest, ClassWeightsChangeTheClassifier) {
  ASSERT_EQ(Select({"--out", File("a.csv"), "--report", File("report.json")}).exit_code, 0);
  const double plain = Report()["svm"]["dual_objective"];
  ASSERT_EQ(Select({"--class-weights", "pos=0.01", "--out", File("a.csv"), "--report", File("report.json")}).exit_code,
            0);
  EXPECT_NE(Report()["svm"]["dual_objective"].get<double>(), plain);
  EXPECT_EQ(Select({"--class-weights", "balanced"}).exit_code, 0);
}

}  // namespace
}  // namespace fulcrum::testing
