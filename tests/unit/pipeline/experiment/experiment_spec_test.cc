#include "pipeline/experiment/experiment_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

#include "absl/strings/str_cat.h"
#include "pipeline/experiment/experiment.h"
#include "stages/ingest/synthetic.h"

namespace fulcrum::pipeline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kGood[] = R"(
name: two
runs: 3
rounds: 20
strategies:
  - alevs
  - {name: wide, strategy: alevs, tau: 0.9}
  - {name: seen, strategy: alevs, engine: landmark, landmarks: 500, refine: off}
compare: {subject: alevs, spans: [[1, 10], [11, 20]], notes: {wide: because}}
tasks:
  - name: a
    data: a.csv
    leverage_kernel: {type: poly, c: 2, degree: 4}
    tau: 0.75
    paper: {wide: [1/2/7, 10/0/0]}
  - name: b
    generate: {problem: ringnorm, rows: 100, mean_factor: 2}
)";

TEST(ExperimentSpec, TunesTheClassifierUnlessItsSettingsAreGiven) {
  EXPECT_TRUE(ParseExperimentSpec(kGood, "x.yaml")->classifier.tune);
  for (const char* line :
       {"tune: off\n", "classifier_c: 1\n", "normalize: zscore\n", "classifier_kernel: {sigma: 2}\n"}) {
    const auto spec = ParseExperimentSpec(std::string(line) + kGood, "x.yaml");
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_FALSE(spec->classifier.tune) << line;
  }
  EXPECT_THAT(
      std::string(ParseExperimentSpec(std::string("tune: auto\nclassifier_c: 1\n") + kGood, "x").status().message()),
      HasSubstr("tune: is auto"));
}

TEST(ExperimentSpec, ReadsEveryField) {
  const auto spec = ParseExperimentSpec(kGood, "x.yaml");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->runs, 3u);
  EXPECT_EQ(spec->strategies[1].name, "wide");
  EXPECT_EQ(spec->strategies[1].strategy, "alevs");
  EXPECT_EQ(spec->strategies[1].tau, 0.9);
  EXPECT_EQ(spec->strategies[1].engine, "auto");
  EXPECT_EQ(spec->strategies[2].engine, "landmark");
  EXPECT_EQ(MakeRoundSpec(*spec, spec->tasks[0], spec->strategies[2], 0).landmarks, 500u);
  EXPECT_FALSE(MakeRoundSpec(*spec, spec->tasks[0], spec->strategies[2], 0).refine_landmarks);
  EXPECT_TRUE(MakeRoundSpec(*spec, spec->tasks[0], spec->strategies[1], 0).refine_landmarks);
  EXPECT_EQ(spec->comparison.spans[1].first, 11u);
  EXPECT_EQ(spec->tasks[0].leverage_kernel.type, kernel::KernelType::kPoly);
  EXPECT_EQ(spec->tasks[0].leverage_kernel.degree, 4);
  EXPECT_EQ(spec->tasks[0].paper.at("wide")[0].loss, 7u);
  ASSERT_TRUE(spec->tasks[1].generated.has_value());
  EXPECT_EQ(spec->tasks[1].generated->problem.mean_factor, 2);
}

TEST(ExperimentSpec, ReportsEveryProblemAtOnceWithLineAndPath) {
  const auto spec = ParseExperimentSpec(R"(
name: bad
runs: many
rouns: 5
strategies: [best, {name: fast, strategy: alevs, engine: steam}]
tasks:
  - name: a
    data: a.csv
    tau: 1.5
    generate: {problem: threenorm}
  - data: b.csv
    leverage_kernel: {type: rbf, sigma: -1}
    starts: s.csv
)",
                                        "bad.yaml");
  ASSERT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string message(spec.status().message());
  EXPECT_THAT(message, HasSubstr("bad.yaml has 10 problems"));
  EXPECT_THAT(message, HasSubstr("line 3: runs: is 'many'; it must be a whole number"));
  EXPECT_THAT(message, HasSubstr("line 4: rouns: there is no such field; did you mean 'rounds'?"));
  EXPECT_THAT(message, HasSubstr("strategies[0]: unknown strategy 'best'"));
  EXPECT_THAT(message, HasSubstr("strategies[1].engine: unknown leverage engine 'steam'"));
  EXPECT_THAT(message, HasSubstr("line 9: tasks[0].tau: is '1.5'; it must be a number above 0 and at most 1"));
  EXPECT_THAT(message,
              HasSubstr("tasks[0].generate.problem: unknown problem 'threenorm'; it must be twonorm, ringnorm"));
  EXPECT_THAT(message, HasSubstr("tasks[0].data: exactly one of"));
  EXPECT_THAT(message, HasSubstr("tasks[1].name: is missing"));
  EXPECT_THAT(message, HasSubstr("tasks[1].leverage_kernel.sigma: is '-1'"));
  EXPECT_THAT(message, HasSubstr("tasks[1].starts: needs train_splits"));
}

TEST(ExperimentSpec, AStreamHasAShareAndATunedClassifier) {
  constexpr char kStream[] = R"(
name: arriving
strategies: [{strategy: stream, share: 0.05}, hybrid]
tasks: [{name: a, data: a.csv}]
)";
  const auto spec = ParseExperimentSpec(kStream, "x.yaml");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->strategies[0].stream_share, 0.05);
  EXPECT_EQ(spec->strategies[1].stream_share, 0);
  const auto message = [](const std::string& text) {
    return std::string(ParseExperimentSpec(text, "x.yaml").status().message());
  };
  EXPECT_THAT(message("name: x\nstrategies: [stream]\ntasks: [{name: a, data: a.csv}]\n"), HasSubstr("needs 'share'"));
  EXPECT_THAT(message("name: x\nstrategies: [{strategy: stream, share: 2}]\ntasks: [{name: a, data: a.csv}]\n"),
              HasSubstr("share"));
  EXPECT_THAT(message(std::string("tune: off\n") + kStream), HasSubstr("needs 'tune: auto'"));
  EXPECT_EQ(message(std::string("annotators: [{accuracy: 0.9}]\n") + kStream), "");
}

TEST(ExperimentSpec, SubjectPaperCountsAndNamesMustFit) {
  const auto message = [](const std::string& more) {
    const auto spec = ParseExperimentSpec("name: n\nstrategies: [alevs, random]\n" + more, "x");
    return std::string(spec.status().message());
  };
  EXPECT_THAT(message("tasks: [{name: a, data: a}]\ncompare: {subject: quire}"), HasSubstr("none of the strategies"));
  EXPECT_THAT(message("tasks: [{name: a, data: a, paper: {random: [1/2/3, 4/5/6]}}]\ncompare: {subject: alevs}"),
              HasSubstr("tasks[0].paper.random: must be a list of 1 counts"));
  EXPECT_THAT(message("tasks: [{name: a, data: a, paper: {random: [1/2]}}]\ncompare: {subject: alevs}"),
              HasSubstr("tasks[0].paper.random[0]: must be win/tie/loss"));
  EXPECT_THAT(message("tasks: [{name: a, data: a}, {name: a, data: b}]"), HasSubstr("the name 'a' comes twice"));
  EXPECT_THAT(message("tasks: 7"), HasSubstr("tasks: is '7'; it must be a list"));
  EXPECT_THAT(message("tasks: [{name: a, data: a}]"), Not(HasSubstr("problem")));
}

TEST(ExperimentSpec, WhatIsNoYamlSaysWhere) {
  const auto spec = ParseExperimentSpec("name: [1, 2\ntasks: }", "broken.yaml");
  EXPECT_THAT(std::string(spec.status().message()), HasSubstr("broken.yaml is not valid YAML: "));
  EXPECT_THAT(std::string(spec.status().message()), HasSubstr("line 2"));
}

TEST(ExperimentSpec, CostsNeedABudgetAndStrategiesThatWeighThem) {
  const std::string rest =
      "name: x\nstrategies: [adaptive-herding, {strategy: margin, weigh_costs: off}]\n"
      "tasks: [{name: t, generate: {problem: twonorm, rows: 100}}]\n";
  const auto good = ParseExperimentSpec(rest + "costs: {low: 1, high: 10, budget: 5}\n", "x.yaml");
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_EQ(good->costs.high, 10);
  EXPECT_EQ(good->costs.budget, 5);
  EXPECT_FALSE(good->strategies[1].weighs_costs);
  EXPECT_THAT(std::string(ParseExperimentSpec(rest + "costs: {low: 1}\n", "x.yaml").status().message()),
              HasSubstr("say what the labels of a round may cost"));
  const std::string blind =
      "name: x\nstrategies: [margin]\ncosts: {budget: 5}\n"
      "tasks: [{name: t, generate: {problem: twonorm, rows: 100}}]\n";
  EXPECT_THAT(std::string(ParseExperimentSpec(blind, "x.yaml").status().message()),
              HasSubstr("'margin' does not weigh costs"));
}

TEST(ExperimentSpec, ClassifiersOfStrategiesAreCheckedByName) {
  const auto parse = [](const std::string& classifier) {
    return ParseExperimentSpec(absl::StrCat("name: x\nstrategies: [{strategy: margin, ", classifier,
                                            "}]\ntasks: [{name: t, generate: {problem: twonorm, rows: 100}}]\n"),
                               "x.yaml");
  };
  const auto good = parse("classifier: logistic, classifier_c: 3");
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_TRUE(good->classifier.tune);
  ASSERT_TRUE(good->strategies[0].classifier);
  EXPECT_FALSE(good->strategies[0].classifier->tune);
  EXPECT_EQ(good->strategies[0].classifier->classifier, "logistic");
  EXPECT_EQ(good->strategies[0].classifier->c, 3);
  EXPECT_THAT(std::string(parse("classifier: forest").status().message()), HasSubstr("no classifier 'forest'"));
  EXPECT_THAT(std::string(parse("tune: auto, normalize: none").status().message()), HasSubstr("leave normalize"));
}

std::string TextOf(const std::string& path) {
  std::ifstream file(std::string(FULCRUM_SOURCE_DIR) + "/" + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ExperimentSpec, EveryFieldIsDocumented) {
  const std::string reader = TextOf("pipeline/experiment/experiment_spec.cc"), page = TextOf("docs/experiments.md");
  const std::regex field(R"re([fF]ields?\.\w+\("([a-z_0-9]+)")re");
  std::size_t count = 0;
  for (std::sregex_iterator at(reader.begin(), reader.end(), field), end; at != end; ++at, ++count) {
    EXPECT_THAT(page, HasSubstr(absl::StrCat("`", (*at)[1].str(), "`")));
  }
  EXPECT_GT(count, 40u);
}

TEST(ExperimentSpec, TheShippedOnesAreGood) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(FULCRUM_SOURCE_DIR) + "/experiments")) {
    const auto spec = LoadExperimentSpec(entry.path().string());
    EXPECT_TRUE(spec.ok()) << spec.status();
    ++count;
  }
  EXPECT_GE(count, 16u);
  EXPECT_EQ(LoadExperimentSpec(std::string(FULCRUM_SOURCE_DIR) + "/experiments/paper_sequential.yaml")->tasks.size(),
            8u);
  EXPECT_EQ(LoadExperimentSpec(std::string(FULCRUM_SOURCE_DIR) + "/experiments/paper_batch.yaml")->tasks.size(), 6u);
}

TEST(ExperimentSpec, TheDefaultIsJudgedOnEveryGeneratorWithATunedClassifier) {
  for (const char* const name : {"default.yaml", "default_batch.yaml"}) {
    const auto spec = LoadExperimentSpec(absl::StrCat(FULCRUM_SOURCE_DIR, "/experiments/", name));
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_TRUE(spec->classifier.tune);
    EXPECT_TRUE(spec->full_data) << "the labels to 95 percent of it are one of the figures";
    for (const ingest::SyntheticEntry& problem : ingest::SyntheticProblems()) {
      EXPECT_TRUE(std::ranges::any_of(spec->tasks, [&](const TaskSettings& task) {
        return task.generated && task.name == problem.name;
      })) << problem.name;
    }
  }
}

}  // namespace
}  // namespace fulcrum::pipeline
