// `fulcrum select` on bad input: a clear message, the right exit code, and no output touched.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/program_fixture.h"
#include "tests/support/sanitizers.h"

namespace fulcrum::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SelectBadInputTest : public ProgramTest {
 protected:
  SelectBadInputTest() {
    WritePool(40);
    WriteLabels(6);
    for (const char* name : {"batch.csv", "scores.csv", "report.json"}) folder_.Write(name, "from before\n");
  }

  /// Runs with all outputs and checks that they are as before and nothing else is there.
  ProcessResult SelectInVain(std::vector<std::string> options) {
    const std::vector<std::string> files = Files();
    options.insert(options.end(),
                   {"--out", File("batch.csv"), "--scores", File("scores.csv"), "--report", File("report.json")});
    const ProcessResult result = Select(options);
    EXPECT_THAT(result.standard_output, IsEmpty());
    EXPECT_EQ(Files(), files);
    for (const char* name : {"batch.csv", "scores.csv", "report.json"}) EXPECT_EQ(Read(name), "from before\n");
    return result;
  }

  void ExpectBadData(const ::testing::Matcher<const std::string&>& message,
                     const std::vector<std::string>& options = {}) {
    const ProcessResult result = SelectInVain(options);
    EXPECT_EQ(result.exit_code, 65) << result.standard_error;
    EXPECT_THAT(result.standard_error, message);
  }

  void ExpectUsage(const std::vector<std::string>& options, const ::testing::Matcher<const std::string&>& message) {
    const ProcessResult result = SelectInVain(options);
    EXPECT_EQ(result.exit_code, 2) << result.standard_error;
    EXPECT_THAT(result.standard_error, message);
  }

  void AddPoolLine(const std::string& line) { folder_.Write("pool.csv", PoolText(40) + line + "\n"); }
};

TEST_F(SelectBadInputTest, NaNAndInfiniteFeatures) {
  AddPoolLine("x,pos,1,nan,3,4");
  ExpectBadData(AllOf(HasSubstr("pool.csv, line 42, column 'f1': 'nan'"), HasSubstr("what to do")));
  AddPoolLine("x,pos,1,2,-inf,4");
  ExpectBadData(HasSubstr("pool.csv, line 42, column 'f2': '-inf' is infinite"));
}

TEST_F(SelectBadInputTest, RaggedRowsAndWords) {
  AddPoolLine("x,pos,1,2,3");
  ExpectBadData(HasSubstr("pool.csv, line 42: 5 values instead of 6"));
  AddPoolLine("x,pos,1,2,3,much");
  ExpectBadData(HasSubstr("line 42, column 'f3': 'much' is not a number"));
}

TEST_F(SelectBadInputTest, MoreColumnsThanAPoolMayHave) {
  std::string header = "id", row = "r0";
  for (int column = 0; column < 100'001; ++column) {
    header += ",c" + std::to_string(column);
    row += ",1";
  }
  folder_.Write("pool.csv", header + "\n" + row + "\n");
  const ProcessResult result = Select({"--strategy", "random"});
  EXPECT_EQ(result.exit_code, 65) << result.standard_error;
  EXPECT_THAT(result.standard_error, ::testing::HasSubstr("pool.csv"));
}

TEST_F(SelectBadInputTest, AnIdTwice) {
  AddPoolLine("r3,pos,1,2,3,4");
  ExpectBadData(HasSubstr("line 42, column 'id': 'r3' is the id of line 5 too"));
}

TEST_F(SelectBadInputTest, LabelsForUnknownIdsAndContradictions) {
  folder_.Write("labels.csv", LabelText(6) + "nobody,pos\n");
  ExpectBadData(
      AllOf(HasSubstr("labels.csv: 1 of 7 ids are not in the pool"), HasSubstr("line 8, column 'id': 'nobody'")));
  folder_.Write("labels.csv", LabelText(6) + "r0,pos\n");
  ExpectBadData(HasSubstr("'r0' is 'pos' here and 'neg' in line 2"));
}

TEST_F(SelectBadInputTest, PredictionsThatMissRows) {
  folder_.Write("predictions.csv", LabelText(30));
  ExpectBadData(AllOf(HasSubstr("10 of 34 unlabeled rows have no prediction"), HasSubstr("'r30'")),
                {"--predictions", File("predictions.csv")});
}

TEST_F(SelectBadInputTest, FilesThatAreNotThere) {
  ExpectBadData(HasSubstr("there is no file"), {"--predictions", File("absent.csv")});
  folder_.Write("pool.csv", "");
  ExpectBadData(HasSubstr("is empty"));
}

TEST_F(SelectBadInputTest, OptionsOutOfTheirRange) {
  ExpectUsage({"--tau", "0"}, HasSubstr("--tau is 0; it must be above 0 and at most 1"));
  ExpectUsage({"--tau", "1.5"}, HasSubstr("--tau is 1.5"));
  ExpectUsage({"--tau", "nan"}, HasSubstr("--tau is nan"));
  ExpectUsage({"--alpha", "-0.1"}, HasSubstr("--alpha is -0.1; it must be between 0 and 1"));
  ExpectUsage({"--alpha", "2"}, HasSubstr("--alpha is 2"));
  ExpectUsage({"--sigma", "0"}, HasSubstr("--sigma is 0; it must be above 0"));
  ExpectUsage({"--sigma", "-1"}, HasSubstr("--sigma is -1"));
  ExpectUsage({"--svm-sigma", "0"}, HasSubstr("--svm-sigma is 0"));
  ExpectUsage({"--svm-c", "0"}, HasSubstr("--svm-c is 0"));
  ExpectUsage({"--batch", "0"}, HasSubstr("--batch is 0; it must be at least 1"));
  ExpectUsage({"--threads", "0"}, HasSubstr("--threads is 0"));
  ExpectUsage({"--batch", "-3"}, HasSubstr("--batch: '-3' is not a whole number"));
  ExpectUsage({"--seed", "1.5"}, HasSubstr("--seed: '1.5' is not a whole number"));
  ExpectUsage({"--tau", "half"}, HasSubstr("--tau"));
}

TEST_F(SelectBadInputTest, NamesThatDoNotExist) {
  ExpectUsage({"--strategy", "best"}, AllOf(HasSubstr("--strategy: "), HasSubstr("dbalevs")));
  ExpectUsage({"--engine", "fast"}, AllOf(HasSubstr("--engine: "), HasSubstr("krylov")));
  ExpectUsage({"--kernel", "sigmoid"}, AllOf(HasSubstr("--kernel: "), HasSubstr("rbf")));
  ExpectUsage({"--leverage-scale", "min"}, HasSubstr("choose none, mean or max"));
  ExpectUsage({"--normalize", "minmax"}, HasSubstr("--normalize: unknown normalisation 'minmax'"));
  ExpectUsage({"--class-weights", "blue=2"}, HasSubstr("there is no class 'blue'; the classes are neg, pos"));
  ExpectUsage({"--class-weights", "pos=-1"}, HasSubstr("'pos=-1' must be a class"));
}

TEST_F(SelectBadInputTest, AKernelOutsideTheUnitIntervalForDbalevs) {
  const ProcessResult result = SelectInVain({"--strategy", "dbalevs", "--kernel", "linear"});
  EXPECT_THAT(result.exit_code, ::testing::AnyOf(2, 65)) << result.standard_error;
  EXPECT_THAT(result.standard_error, HasSubstr("[0, 1]"));
}

TEST_F(SelectBadInputTest, OutputsThatCannotBe) {
  ExpectUsage({"--scores", File("absent/scores.csv")}, HasSubstr("--scores"));
  const ProcessResult same = Select({"--out", File("b.csv"), "--scores", File("b.csv")});
  EXPECT_EQ(same.exit_code, 2);
  EXPECT_THAT(same.standard_error, HasSubstr("are the same file"));
  const ProcessResult folder = Select({"--out", folder_.path()});
  EXPECT_EQ(folder.exit_code, 2);
  EXPECT_THAT(folder.standard_error, HasSubstr("it is a folder"));
  const std::string before = Read("pool.csv");
  EXPECT_EQ(Select({"--out", File("pool.csv")}).exit_code, 2);
  EXPECT_EQ(Read("pool.csv"), before);
}

TEST_F(SelectBadInputTest, MissingFileOptions) {
  const ProcessResult result = Run({"select", "--pool", File("pool.csv")});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.standard_error, HasSubstr("--labels is missing"));
}

TEST_F(SelectBadInputTest, AConstantColumnIsNotedAndHarmless) {
  std::string pool = "id,same,f0\n";
  for (std::size_t row = 0; row < 40; ++row)
    pool +=
        RowId(row) + ",7," + std::to_string(static_cast<double>(row % 2 * 3) + static_cast<double>(row) * 0.01) + "\n";
  folder_.Write("pool.csv", pool);
  const ProcessResult result = Select({"--batch", "4"});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_THAT(result.standard_error, HasSubstr("note: 1 of 2 columns is constant and tells nothing apart: 'same'"));
  EXPECT_EQ(ParseCsv(result.standard_output).size(), 4u);
}

TEST_F(SelectBadInputTest, IdenticalRowsAreNoted) {
  std::string pool = "id,f0,f1\n";
  for (std::size_t row = 0; row < 40; ++row) pool += RowId(row) + ",1,2\n";
  folder_.Write("pool.csv", pool);
  const ProcessResult result = Select({"--strategy", "hybrid", "--batch", "4"});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_THAT(result.standard_error, HasSubstr("rank one"));
  EXPECT_EQ(ParseCsv(result.standard_output).size(), 4u);
}

TEST_F(SelectBadInputTest, AnEmptyClassGroupIsNotedAndItsShareGoesToTheOthers) {
  std::string predictions = "id,label\n";
  for (std::size_t row = 0; row < 40; ++row) predictions += RowId(row) + ",pos\n";
  folder_.Write("predictions.csv", predictions);
  const ProcessResult result = Select({"--batch", "6", "--predictions", File("predictions.csv")});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_THAT(result.standard_error, HasSubstr("no unlabeled row is predicted to be of class 'neg'"));
  EXPECT_EQ(ParseCsv(result.standard_output).size(), 6u);
}

TEST_F(SelectBadInputTest, StandardOutputThatTakesNothingIsAnErrorAndLeavesNothing) {
  const std::vector<std::string> files = Files();
  const ProcessResult result =
      RunProcess({"sh", "-c", "exec \"$0\" select --pool \"$1\" --labels \"$2\" --report \"$3\" >/dev/full",
                  FULCRUM_PROGRAM, File("pool.csv"), File("labels.csv"), File("report.json")});
  EXPECT_EQ(result.exit_code, 75) << result.standard_error;
  EXPECT_THAT(result.standard_error, HasSubstr("standard output"));
  EXPECT_EQ(Read("report.json"), "from before\n");
  EXPECT_EQ(Files(), files);
}

TEST_F(SelectBadInputTest, WithoutMemoryItSaysTryAgain) {
  if (kUnderSanitizer) GTEST_SKIP() << "a sanitizer takes far more memory than there would be";
  ASSERT_EQ(Run({"generate", "twonorm", "--rows", "12000", "--dims", "2", "--out", File("big.csv")}).exit_code, 0);
  folder_.Write("labels.csv", "id,label\n0,a\n1,b\n");
  // Room for the program and the pool, not for a kernel of 6,000 x 6,000.
  const ProcessResult result = Run({"select", "--pool", File("big.csv"), "--labels", File("labels.csv"), "--threads",
                                    "1", "--strategy", "hybrid", "--tune", "off", "--out", File("batch.csv")},
                                   {.memory_limit = std::uint64_t{600} << 20});
  EXPECT_EQ(result.exit_code, 75) << result.standard_error;
  EXPECT_THAT(result.standard_error, HasSubstr("memory"));
  EXPECT_EQ(Read("batch.csv"), "from before\n");
}

}  // namespace
}  // namespace fulcrum::testing
