// `fulcrum generate`.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/program_fixture.h"

namespace fulcrum::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class GenerateTest : public ProgramTest {};

TEST_F(GenerateTest, WritesAHeaderAndRows) {
  const ProcessResult result = Run({"generate", "ringnorm", "--rows", "50", "--dims", "3", "--seed", "4"});
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_THAT(result.standard_output, StartsWith("label,f0,f1,f2\n"));
  const CsvRows rows = ParseCsv(result.standard_output);
  ASSERT_EQ(rows.size(), 50u);
  int positive = 0;
  for (const auto& row : rows) {
    EXPECT_THAT(row.at("label"), ::testing::AnyOf("1", "-1"));
    positive += row.at("label") == "1" ? 1 : 0;
  }
  EXPECT_GT(positive, 10);
  EXPECT_LT(positive, 40);
}

TEST_F(GenerateTest, TheSameSeedGivesTheSameRowsAndMoreRowsContinueFewer) {
  const std::string few = Run({"generate", "twonorm", "--rows", "300", "--seed", "9"}).standard_output;
  const std::string many = Run({"generate", "twonorm", "--rows", "20000", "--seed", "9"}).standard_output;
  EXPECT_EQ(ParseCsv(many).size(), 20000u);
  EXPECT_EQ(many.substr(0, few.size()), few);
  EXPECT_NE(Run({"generate", "twonorm", "--rows", "300", "--seed", "8"}).standard_output, few);
}

TEST_F(GenerateTest, WrongOptionsAreUsageErrorsAndWriteNothing) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"threenorm", "--rows", "5"},
                                                {"twonorm"},
                                                {"twonorm", "--rows", "0"},
                                                {"twonorm", "--rows", "5", "--dims", "0"},
                                                {"twonorm", "--rows", "many"},
                                                {"--rows", "5"}}) {
    std::vector<std::string> all = {"generate"};
    all.insert(all.end(), words.begin(), words.end());
    all.insert(all.end(), {"--out", File("out.csv")});
    const ProcessResult result = Run(all);
    EXPECT_EQ(result.exit_code, 2) << ::testing::PrintToString(all);
    EXPECT_FALSE(result.standard_error.empty());
    EXPECT_THAT(Files(), IsEmpty());
  }
}

TEST_F(GenerateTest, AFileReplacesWhatWasThere) {
  folder_.Write("out.csv", "old");
  ASSERT_EQ(Run({"generate", "twonorm", "--rows", "5", "--out", File("out.csv")}).exit_code, 0);
  EXPECT_THAT(Read("out.csv"), StartsWith("label,f0"));
  EXPECT_THAT(Files(), ElementsAre("out.csv"));
}

}  // namespace
}  // namespace fulcrum::testing
