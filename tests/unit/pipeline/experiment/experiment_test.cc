// Whole experiments on small generated tasks: same curves whatever the threads and interruptions, and the report.

#include "pipeline/experiment/experiment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "pipeline/experiment/report/report_page.h"
#include "tbb/global_control.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kSpec[] = R"(
name: small
title: Small & quick
runs: 3
rounds: 5
strategies: [alevs, random, uncertainty, ted]
compare: {subject: alevs, spans: [[1, 5]]}
tasks:
  - {name: ring, generate: {problem: ringnorm, rows: 120, dims: 4}, paper: {random: [0/0/5]}}
  - {name: two, generate: {problem: twonorm, rows: 90, dims: 4}}
  - {name: gone, data: not_here.csv}
)";

class ExperimentTest : public ::testing::Test {
 protected:
  ExperimentTest() : spec_(*ParseExperimentSpec(kSpec, "spec")) {}

  absl::StatusOr<ExperimentResult> Run(const std::string& folder, std::size_t threads, bool resume = false) {
    Progress progress("test", ProgressStyle::kSilent);
    return RunExperiment(
        spec_, {.data_folder = folder_.path(), .out_folder = folder, .resume = resume, .threads = threads}, progress);
  }

  /// Everything but the seconds.
  static std::string Stable(const ExperimentResult& result) {
    std::string text;
    for (const Curve& curve : result.curves.all()) {
      absl::StrAppend(&text, curve.task, " ", curve.strategy, " ", curve.run);
      for (const CurvePoint& point : curve.points) {
        absl::StrAppendFormat(&text, " %d %d %.17g %.17g %.17g", point.round, point.labels, point.accuracy, point.f1,
                              point.queried_positive_share);
      }
      text.push_back('\n');
    }
    return text;
  }

  static std::vector<std::string> LinesOf(const std::string& path) {
    std::ifstream stream(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }

  testing::TemporaryDirectory folder_, first_, second_;
  ExperimentSpec spec_;
};

TEST_F(ExperimentTest, CurvesDoNotDependOnThreads) {
  const auto many = Run(first_.path(), 4);
  ASSERT_TRUE(many.ok()) << many.status();
  const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
  const auto single = Run(second_.path(), 1);
  ASSERT_TRUE(single.ok()) << single.status();
  EXPECT_EQ(Stable(*many), Stable(*single));
  EXPECT_EQ(many->curves.all().size(), 2u * 3 * 5);
  EXPECT_EQ(many->curves.StrategiesOf("two").size(), 4u);
  EXPECT_EQ(many->curves.ValuesAt("ring", "ted", 5, Metric::kAccuracy).size(), 3u);
}

TEST_F(ExperimentTest, TheFullDataLineCanBeLeftOut) {
  spec_ = *ParseExperimentSpec(absl::StrCat(kSpec, "full_data: off\n"), "spec");
  const auto result = Run(first_.path(), 2);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->curves.all().size(), 2u * 3 * 4);
  EXPECT_TRUE(result->curves.ValuesAt("ring", kFullData, 0, Metric::kAccuracy).empty());
  const std::string page = ReportPage(spec_, {.threads = 2}, *result);
  EXPECT_THAT(page, AllOf(HasSubstr("Learning curves on ring"), Not(HasSubstr("class=\"full-data\"")),
                          Not(HasSubstr("whole training half")), Not(HasSubstr("nan"))));
}

TEST_F(ExperimentTest, AStrategyCanHaveItsOwnClassifier) {
  constexpr char kClassifiers[] = R"(
name: classifiers
runs: 2
rounds: 4
classifier_c: 2
strategies:
  - margin
  - {name: margin again, strategy: margin, classifier_c: 2}
  - {name: logistic, strategy: margin, classifier: logistic, classifier_kernel: {type: linear}, normalize: zscore}
  - {name: tuned, strategy: margin, tune: auto}
tasks:
  - {name: ring, generate: {problem: ringnorm, rows: 160, dims: 4}}
)";
  spec_ = *ParseExperimentSpec(kClassifiers, "spec");
  const auto result = Run(first_.path(), 2);
  ASSERT_TRUE(result.ok()) << result.status();
  const auto ends = [&](const std::string& name) {
    return result->curves.ValuesAt("ring", name, 4, Metric::kAccuracy);
  };
  EXPECT_EQ(ends("margin"), ends("margin again"));
  EXPECT_NE(ends("margin"), ends("logistic")) << "a line does not separate a ring";
  EXPECT_NE(ends("margin"), ends("tuned"));
  EXPECT_NE(ends("logistic"), ends("tuned"));
  // Each is what it is alone.
  spec_.strategies.erase(spec_.strategies.begin(), spec_.strategies.begin() + 2);
  const auto alone = Run(second_.path(), 1);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(alone->curves.ValuesAt("ring", "logistic", 4, Metric::kAccuracy), ends("logistic"));
  const std::string page = ReportPage(spec_, {.threads = 2}, *result);
  EXPECT_THAT(page, AllOf(HasSubstr("logistic (margin, logistic, linear, C = 2, features: zscore)"),
                          HasSubstr("The classifier at the end"), HasSubstr("macro-F1")));
}

TEST_F(ExperimentTest, ATaskWithoutItsDataIsLeftOutAndReported) {
  const auto result = Run(first_.path(), 2);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->skipped.size(), 1u);
  EXPECT_EQ(result->skipped[0].name, "gone");
  EXPECT_THAT(result->skipped[0].reason, HasSubstr("not_here.csv"));
  spec_.tasks.erase(spec_.tasks.begin(), spec_.tasks.begin() + 2);
  EXPECT_THAT(std::string(Run(second_.path(), 1).status().message()), HasSubstr("no task has its data"));
}

TEST_F(ExperimentTest, ResumesFromAnyPartOfTheJournalAndDoesNothingTwice) {
  const auto whole = Run(first_.path(), 2);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_THAT(std::string(Run(first_.path(), 2).status().message()), HasSubstr("add --resume"));
  const std::vector<std::string> lines = LinesOf(first_.File("journal.tsv"));
  ASSERT_EQ(lines.size(), 30u);
  {
    std::ofstream part(second_.File("journal.tsv"));
    for (std::size_t i = 0; i < 17; ++i) part << lines[i] << "\n";
    part << lines[17].substr(0, lines[17].size() / 2);
  }
  const auto rest = Run(second_.path(), 2, /*resume=*/true);
  ASSERT_TRUE(rest.ok()) << rest.status();
  EXPECT_EQ(rest->resumed_curves, 17u);
  EXPECT_EQ(Stable(*rest), Stable(*whole));
  EXPECT_EQ(LinesOf(second_.File("journal.tsv")).size(), 30u) << "a curve was computed that was there";
  const auto again = Run(second_.path(), 2, /*resume=*/true);
  EXPECT_EQ(again->resumed_curves, 30u);
}

TEST_F(ExperimentTest, ResultsOfOtherSettingsAreNotTakenForThese) {
  ASSERT_TRUE(Run(first_.path(), 2).ok());
  spec_.tasks[0].tau = 0.9;
  const auto changed = Run(first_.path(), 2, /*resume=*/true);
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ(changed->resumed_curves, 15u + 3) << "the other task, and the full-data line that knows no tau";
  EXPECT_EQ(changed->foreign_curves, 12u);
  // With the engine "auto" too, which may choose landmarks.
  spec_.strategies[0].refine_landmarks = false;
  const auto not_refined = Run(first_.path(), 2, /*resume=*/true);
  ASSERT_TRUE(not_refined.ok()) << not_refined.status();
  EXPECT_EQ(not_refined->resumed_curves, 2u * 3 * 4) << "all but those of the one strategy";
}

TEST_F(ExperimentTest, TheSpecIsNarrowedByTheCommandLine) {
  ASSERT_TRUE(ChangeSpec({.tasks = {"two"}, .strategies = {"random", "quire"}, .runs = 2, .rounds = 3}, spec_).ok());
  EXPECT_EQ(spec_.tasks.size(), 1u);
  EXPECT_EQ(spec_.strategies[1].strategy, "quire") << "any strategy the program has may be named";
  EXPECT_TRUE(spec_.comparison.subject.empty()) << "alevs is gone, so there is nobody to count wins for";
  const auto result = Run(first_.path(), 1);
  EXPECT_EQ(result->curves.LastRound("two"), 3u);
  EXPECT_THAT(std::string(ChangeSpec({.tasks = {"tow"}}, spec_).message()), HasSubstr("did you mean 'two'?"));
  EXPECT_THAT(std::string(ChangeSpec({.strategies = {"quier"}}, spec_).message()), HasSubstr("did you mean 'quire'?"));
}

TEST_F(ExperimentTest, TheReportIsOnePageWithEverything) {
  const auto result = Run(first_.path(), 2);
  ASSERT_TRUE(result.ok()) << result.status();
  const std::string page = ReportPage(spec_, {.threads = 2}, *result);
  EXPECT_THAT(page, AllOf(HasSubstr("<title>Small &amp; quick</title>"), HasSubstr("Learning curves on ring"),
                          HasSubstr("Selection time on two"), HasSubstr("class=\"full-data\""), HasSubstr("paper"),
                          HasSubstr("<strong>gone</strong>")));
  EXPECT_THAT(page, AllOf(HasSubstr("Mean ranks and critical difference"), HasSubstr("ted on two"),
                          HasSubstr("aria-pressed=\"false\"")));
  EXPECT_THAT(page, AllOf(HasSubstr("smallest mean regret"), HasSubstr("oneTBB"), HasSubstr("rbf(sigma=1)")));
  EXPECT_THAT(page, AllOf(Not(HasSubstr("http://")), Not(HasSubstr("https://")), Not(HasSubstr("src=")),
                          Not(HasSubstr("nan"))));
}

}  // namespace
}  // namespace fulcrum::pipeline
