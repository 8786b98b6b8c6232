// `fulcrum experiment` as a user runs it: outputs, errors, and going on after kill -9.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/program_fixture.h"

namespace fulcrum::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr char kSpec[] = R"(
name: tiny
runs: 4
rounds: 6
strategies: [alevs, uncertainty, random]
compare: {subject: alevs, spans: [[1, 6]]}
tasks:
  - {name: ring, generate: {problem: ringnorm, rows: 200, dims: 5}, paper: {random: [6/0/0]}}
  - {name: mine, data: pool.csv, positive: pos}
  - {name: gone, data: gone.csv}
)";

class ExperimentCommandTest : public ProgramTest {
 protected:
  ExperimentCommandTest() {
    folder_.Write("spec.yaml", kSpec);
    WritePool(80);
  }

  std::vector<std::string> Words(const std::string& out, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{"experiment",   "--spec", File("spec.yaml"), "--data",
                                   folder_.path(), "--out",  File(out)};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  /// curves.csv without the seconds.
  std::string StableCurves(const std::string& out) const {
    std::string stable;
    for (const auto& row : ParseCsv(Read(out + "/curves.csv"))) {
      for (const char* column : {"task", "strategy", "run", "round", "labels", "accuracy", "f1", "positive_share"}) {
        stable.append(row.at(column)).push_back(' ');
      }
      stable.push_back('\n');
    }
    return stable;
  }

  /// Starts the program and kills it once it has said this many lines; its own output is the gate.
  static void KillAfterLines(std::vector<std::string> words, std::size_t lines) {
    words.insert(words.begin(), FULCRUM_PROGRAM);
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const pid_t child = fork();
    if (child == 0) {
      dup2(ends[1], STDERR_FILENO);
      std::vector<char*> arguments;
      for (std::string& word : words) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      execv(arguments[0], arguments.data());
      _exit(127);
    }
    close(ends[1]);
    char character = 0;
    while (lines > 0 && read(ends[0], &character, 1) == 1) lines -= character == '\n' ? 1 : 0;
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    close(ends[0]);
    EXPECT_TRUE(WIFSIGNALED(status)) << "it ended before it was killed";
  }
};

TEST_F(ExperimentCommandTest, SaysThatAPoolRanOut) {
  const ProcessResult result =
      Run(Words("out", {"--tasks", "mine", "--strategies", "random", "--runs", "1", "--rounds", "60"}));
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_THAT(result.standard_error,
              ::testing::HasSubstr("the pool of task mine (40 rows) ran out after 36 of 60 rounds"));
  EXPECT_THAT(Read("out/report.html"), ::testing::HasSubstr("the pool ran out after 36 of 60 rounds"));
}

TEST_F(ExperimentCommandTest, WritesTablesAndReportAndSaysWhatWasLeftOut) {
  const ProcessResult result = Run(Words("out"));
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_THAT(result.standard_error, HasSubstr("note: task gone was left out: there is no file"));
  EXPECT_THAT(result.standard_output, AllOf(HasSubstr("alevs"), HasSubstr("report.html")));
  const CsvRows curves = ParseCsv(Read("out/curves.csv"));
  EXPECT_EQ(curves.size(), 2u * 4 * (3 * 7 + 1));
  const CsvRows wins = ParseCsv(Read("out/wtl.csv"));
  ASSERT_EQ(wins.size(), 4u);
  for (const auto& row : wins) {
    EXPECT_EQ(std::stoi(row.at("win")) + std::stoi(row.at("tie")) + std::stoi(row.at("loss")), 6);
    const bool in_paper = row.at("task") == "ring" && row.at("opponent") == "random";
    EXPECT_EQ(row.at("paper_win"), in_paper ? "6" : "");
  }
  EXPECT_EQ(ParseCsv(Read("out/regret.csv")).size(), 6u);
  EXPECT_THAT(Read("out/report.html"), StartsWith("<!DOCTYPE html>"));
}

TEST_F(ExperimentCommandTest, TakesEveryFormatAndImportedPools) {
  for (const char* file : {"pool.parquet", "pool.arrow", "pool.csv.gz"}) {
    ASSERT_EQ(Run({"convert", File("pool.csv"), File(file)}).exit_code, 0) << file;
  }
  ASSERT_EQ(Run({"import", File("pool.parquet"), "--out", File("imported")}).exit_code, 0);
  std::string first;
  for (const std::string& data :
       {std::string("pool.csv"), std::string("pool.parquet"), std::string("pool.arrow"), std::string("pool.csv.gz"),
        std::string("imported"), "file://" + File("pool.parq*")}) {
    folder_.Write("spec.yaml", absl::StrCat("name: formats\nruns: 2\nrounds: 4\nstrategies: [alevs, random]\n",
                                            "tasks: [{name: mine, data: \"", data, "\", positive: pos}]\n"));
    const std::string out = absl::StrCat("out-", data.substr(data.rfind('/') + 1));
    const ProcessResult result = Run(Words(out));
    ASSERT_EQ(result.exit_code, 0) << data << ": " << result.standard_error;
    if (first.empty()) first = StableCurves(out);
    EXPECT_EQ(StableCurves(out), first) << data;
  }
  EXPECT_THAT(first, HasSubstr("mine alevs 1 4"));
}

TEST_F(ExperimentCommandTest, ThreadsDoNotChangeTheCurves) {
  ASSERT_EQ(Run(Words("one", {"--threads", "1"})).exit_code, 0);
  ASSERT_EQ(Run(Words("three", {"--threads", "3"})).exit_code, 0);
  EXPECT_EQ(StableCurves("one"), StableCurves("three"));
}

TEST_F(ExperimentCommandTest, KilledAndResumedItGivesTheSameAndRepeatsNothing) {
  ASSERT_EQ(Run(Words("whole")).exit_code, 0);
  for (const std::size_t lines : {2, 9}) {
    KillAfterLines(Words("killed", {"--verbose", "--resume"}), lines);
    EXPECT_EQ(Read("killed/curves.csv"), "") << "tables appear when all is done";
  }
  const ProcessResult refused = Run(Words("killed"));
  EXPECT_EQ(refused.exit_code, 65);
  EXPECT_THAT(refused.standard_error, HasSubstr("add --resume to go on from there"));
  const std::string journal = Read("killed/journal.tsv");
  const ProcessResult rest = Run(Words("killed", {"--resume"}));
  ASSERT_EQ(rest.exit_code, 0) << rest.standard_error;
  EXPECT_EQ(StableCurves("killed"), StableCurves("whole"));
  const std::string complete = Read("killed/journal.tsv");
  EXPECT_THAT(complete, StartsWith(journal.substr(0, journal.rfind('\n') + 1))) << "what was finished is kept";
  EXPECT_EQ(std::count(complete.begin(), complete.end(), '\n'), 2 * 4 * 4) << "one line a curve: none twice";
}

TEST_F(ExperimentCommandTest, PartsOfASpec) {
  ASSERT_EQ(
      Run(Words("out", {"--tasks", "mine", "--strategies", "random,quire", "--runs", "2", "--rounds", "3"})).exit_code,
      0);
  EXPECT_EQ(ParseCsv(Read("out/curves.csv")).size(), 2u * (2 * 4 + 1));
}

TEST_F(ExperimentCommandTest, MistakesAreUsageErrorsThatNameThem) {
  const auto expect = [&](const std::vector<std::string>& words, const std::string& message) {
    const ProcessResult result = Run(words);
    EXPECT_EQ(result.exit_code, 2) << message;
    EXPECT_THAT(result.standard_error, HasSubstr(message));
  };
  expect({"experiment", "--out", File("out")}, "--spec is missing");
  expect({"experiment", "--spec", File("spec.yaml")}, "--out is missing");
  expect({"experiment", "--spec", File("none.yaml"), "--out", File("out")}, "cannot read");
  expect(Words("out", {"--tasks", "rign"}), "did you mean 'ring'?");
  expect(Words("out", {"--strategies", "alvs"}), "did you mean 'alevs'?");
  expect(Words("out", {"--threads", "0"}), "--threads is 0");
  folder_.Write("spec.yaml", "name: x\nruns: -1\n");
  expect(Words("out"), "runs: is '-1'");
}

}  // namespace
}  // namespace fulcrum::testing
