// `fulcrum select --stream`: answers row by row, keeps its budget, and gives the same answers if it is killed.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "stages/core/random.h"
#include "tests/integration/program_fixture.h"

namespace fulcrum::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// The program with both ends of its standard streams in the test's hands.
class StreamProcess {
 public:
  explicit StreamProcess(const std::vector<std::string>& words) {
    int input[2], output[2];
    if (pipe2(input, O_CLOEXEC) != 0 || pipe2(output, O_CLOEXEC) != 0) abort();
    child_ = fork();
    if (child_ == 0) {
      dup2(input[0], STDIN_FILENO);
      dup2(output[1], STDOUT_FILENO);
      std::vector<char*> arguments;
      for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
      arguments.push_back(nullptr);
      execv(arguments[0], arguments.data());
      _exit(127);
    }
    close(input[0]);
    close(output[1]);
    input_ = input[1];
    output_ = output[0];
  }
  ~StreamProcess() { Kill(); }
  StreamProcess(const StreamProcess&) = delete;
  StreamProcess& operator=(const StreamProcess&) = delete;

  void Write(const std::string& text) const {
    ASSERT_EQ(write(input_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

  /// Waits for the next line of the answers; empty at their end.
  std::string ReadLine() {
    std::size_t end = 0;
    while ((end = read_.find('\n')) == std::string::npos) {
      char buffer[4096];
      const ssize_t count = read(output_, buffer, sizeof(buffer));
      if (count <= 0) return "";
      read_.append(buffer, static_cast<std::size_t>(count));
    }
    std::string line = read_.substr(0, end);
    read_.erase(0, end + 1);
    return line;
  }

  void Kill() {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    close(input_);
    close(output_);
    child_ = -1;
  }

 private:
  pid_t child_ = -1;
  int input_ = -1, output_ = -1;
  std::string read_;
};

constexpr char kHeader[] = "f3,f1,id,f0,f2\n";

/// Line `row` of a stream like the pool: with other columns in another order.
std::string StreamLine(std::size_t row, double shift = 0) {
  Random random = Random::Fork(99, row);
  std::ostringstream line;
  const double centre = (row % 2 == 1 ? 1 : -1) + shift;
  line << centre + 0.6 * random.Normal() << "," << centre + 0.6 * random.Normal() << ",s" << row << ","
       << centre + 0.6 * random.Normal() << "," << centre + 0.6 * random.Normal() << "\n";
  return line.str();
}

class SelectStreamTest : public ProgramTest {
 protected:
  SelectStreamTest() {
    WritePool(300);
    WriteLabels(20);
  }

  std::vector<std::string> Words(const std::vector<std::string>& options) const {
    std::vector<std::string> words = {FULCRUM_PROGRAM,  "select",   "--stream",        "--pool",
                                      File("pool.csv"), "--labels", File("labels.csv")};
    words.insert(words.end(), options.begin(), options.end());
    return words;
  }

  /// The whole stream from a file.
  ProcessResult Stream(const std::string& rows, const std::vector<std::string>& options) const {
    folder_.Write("rows.csv", rows);
    std::string command;
    for (const std::string& word : Words(options)) absl::StrAppend(&command, "'", word, "' ");
    return RunProcess({"sh", "-c", absl::StrCat("exec ", command, "< '", File("rows.csv"), "'")});
  }

  static std::string Rows(std::size_t first, std::size_t end, double shift = 0) {
    std::string text;
    for (std::size_t row = first; row < end; ++row) text += StreamLine(row, shift);
    return text;
  }
};

TEST_F(SelectStreamTest, AnswersEveryRowWithinTheBudget) {
  const ProcessResult result = Stream(kHeader + Rows(0, 4000), {"--budget", "5%"});
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_THAT(result.standard_output, StartsWith("id,score,threshold,decision\ns0,"));
  const CsvRows answers = ParseCsv(result.standard_output);
  ASSERT_EQ(answers.size(), 4000U);
  std::size_t taken = 0;
  for (std::size_t row = 0; row < answers.size(); ++row) {
    EXPECT_EQ(answers[row].at("id"), absl::StrCat("s", row));
    const bool label = answers[row].at("decision") == "label";
    EXPECT_EQ(label, std::stod(answers[row].at("score")) >= std::stod(answers[row].at("threshold")));
    taken += label ? 1 : 0;
    EXPECT_NEAR(static_cast<double>(taken), 0.05 * static_cast<double>(row + 1), 1 + 1e-9);
  }
}

TEST_F(SelectStreamTest, ARowIsAnsweredBeforeTheNextOneIsSent) {
  StreamProcess process(Words({"--budget", "10%", "--quiet"}));
  process.Write(kHeader);
  EXPECT_EQ(process.ReadLine(), "id,score,threshold,decision");
  for (std::size_t row = 0; row < 50; ++row) {
    process.Write(StreamLine(row));
    EXPECT_THAT(process.ReadLine(), StartsWith(absl::StrCat("s", row, ",")));
  }
}

TEST_F(SelectStreamTest, KilledTenTimesItGivesTheSameAnswers) {
  const std::size_t rows = 1100;
  const ProcessResult whole = Stream(kHeader + Rows(0, rows), {"--budget", "3%", "--quiet"});
  ASSERT_EQ(whole.exit_code, 0) << whole.standard_error;
  std::vector<std::string> expected;
  std::istringstream lines(whole.standard_output);
  for (std::string line; std::getline(lines, line);) expected.push_back(line);
  ASSERT_EQ(expected.size(), rows + 1);

  const std::vector<std::string> words = Words({"--budget", "3%", "--quiet", "--state", File("stream.state")});
  std::size_t answered = 0;
  for (std::size_t kill = 1; kill <= 10; ++kill) {
    StreamProcess process(words);
    process.Write(kHeader);
    ASSERT_EQ(process.ReadLine(), expected[0]);
    // From a little before the last answer that was seen, in pieces of different sizes; it dies with more underway.
    std::size_t row = answered < 40 ? 0 : answered - 40;
    for (std::size_t piece = 1; row < 100 * kill; piece = piece * 3 % 31 + 1) {
      const std::size_t end = std::min(row + piece, 100 * kill);
      process.Write(Rows(row, end));
      for (; row < end; ++row) ASSERT_EQ(process.ReadLine(), expected[row + 1]) << "row " << row << ", kill " << kill;
    }
    answered = row;
    process.Write(Rows(row, row + 17));
    process.Kill();
  }
  const ProcessResult rest =
      Stream(kHeader + Rows(0, rows), {"--budget", "3%", "--quiet", "--state", File("stream.state")});
  EXPECT_EQ(rest.exit_code, 0) << rest.standard_error;
  EXPECT_EQ(rest.standard_output, whole.standard_output);
}

TEST_F(SelectStreamTest, TheStateGoesOnWithMoreLabels) {
  const std::vector<std::string> options = {"--budget", "5%", "--state", File("stream.state")};
  ASSERT_EQ(Stream(kHeader + Rows(0, 1000), options).exit_code, 0);
  WriteLabels(60);
  const ProcessResult result = Stream(kHeader + Rows(900, 2000), options);
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_THAT(result.standard_error, HasSubstr("2000 rows so far"));
  EXPECT_THAT(result.standard_error, HasSubstr("100.0 allowed"));
}

TEST_F(SelectStreamTest, WarnsOfRowsThatAreNotLikeThePool) {
  const std::vector<std::string> options = {"--drift-window", "200"};
  const ProcessResult same = Stream(kHeader + Rows(0, 1000), options);
  ASSERT_EQ(same.exit_code, 0) << same.standard_error;
  EXPECT_THAT(same.standard_error, HasSubstr("0 of 5 windows unlike the pool"));
  const ProcessResult shifted = Stream(kHeader + Rows(0, 400) + Rows(400, 1000, 2), options);
  ASSERT_EQ(shifted.exit_code, 0) << shifted.standard_error;
  EXPECT_THAT(shifted.standard_error,
              HasSubstr("warning: the rows up to 's599' are not distributed as those of the pool"));
  EXPECT_THAT(shifted.standard_error, HasSubstr("3 of 5 windows unlike the pool"));
}

TEST_F(SelectStreamTest, SaysWhichLineIsWrongAfterAnsweringThoseBefore) {
  const ProcessResult result = Stream(kHeader + Rows(0, 5) + "1,2,s5,x,4\n" + Rows(6, 9), {});
  EXPECT_EQ(result.exit_code, 65);
  EXPECT_THAT(result.standard_error, HasSubstr("line 7 of the stream: 'x' is not a finite number"));
  EXPECT_EQ(ParseCsv(result.standard_output).size(), 5U);
  EXPECT_THAT(Stream("id,f0,f1,f2\n", {}).standard_error, HasSubstr("there is no column 'f3'"));
  EXPECT_THAT(Stream(kHeader + std::string("1,2,s5\n"), {}).standard_error, HasSubstr("3 values for 5 columns"));
  EXPECT_EQ(Stream("", {}).exit_code, 65);
}

TEST_F(SelectStreamTest, AnIdWithOtherFeaturesIsRefused) {
  const std::vector<std::string> options = {"--state", File("stream.state")};
  ASSERT_EQ(Stream(kHeader + Rows(0, 5), options).exit_code, 0);
  const ProcessResult result = Stream(kHeader + std::string("1,1,s3,1,1\n"), options);
  EXPECT_EQ(result.exit_code, 65);
  EXPECT_THAT(result.standard_error, HasSubstr("a row with this id and other features was decided before"));
}

TEST_F(SelectStreamTest, RefusesWrongOptions) {
  for (const char* budget : {"0", "101%", "-1/h", "many", "5/w", ""}) {
    const ProcessResult result = Stream(kHeader, {"--budget", budget});
    EXPECT_EQ(result.exit_code, 2) << budget;
    EXPECT_THAT(result.standard_error, HasSubstr("--budget")) << budget;
  }
  EXPECT_EQ(Stream(kHeader, {"--out", File("out.csv")}).exit_code, 2);
  EXPECT_EQ(Select({"--budget", "1%"}).exit_code, 2);
}

TEST_F(SelectStreamTest, ABudgetPerTimeIsALimit) {
  const ProcessResult result = Stream(kHeader + Rows(0, 2000), {"--budget", "1/d"});
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  std::size_t taken = 0;
  for (const auto& row : ParseCsv(result.standard_output)) taken += row.at("decision") == "label" ? 1 : 0;
  EXPECT_LE(taken, 1U);
}

}  // namespace
}  // namespace fulcrum::testing
