#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tests/integration/program_fixture.h"

namespace fulcrum::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ImportTest : public ProgramTest {
 protected:
  ProcessResult Import(const std::vector<std::string>& words) const {
    std::vector<std::string> all = {"import"};
    all.insert(all.end(), words.begin(), words.end());
    all.insert(all.end(), {"--out", File("pool")});
    return Run(all);
  }
  nlohmann::json Inspect() const {
    const ProcessResult result = Run({"inspect", File("pool"), "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    return nlohmann::json::parse(result.standard_output);
  }
};

TEST_F(ImportTest, SelectsTheSameFromThePoolAsFromTheFile) {
  WritePool(200);
  WriteLabels(8);
  const ProcessResult import = Import({File("pool.csv")});
  ASSERT_EQ(import.exit_code, 0) << import.standard_error;
  EXPECT_THAT(import.standard_output, HasSubstr("200 rows x 4 features; 200 added, 0 existing, 0 rejected"));
  const ProcessResult from_file = Select({"--strategy", "hybrid", "--batch", "7", "--normalize", "unit"});
  ASSERT_EQ(from_file.exit_code, 0) << from_file.standard_error;
  const ProcessResult from_pool = Run({"select", "--pool", File("pool"), "--labels", File("labels.csv"), "--strategy",
                                       "hybrid", "--batch", "7", "--normalize", "unit"});
  ASSERT_EQ(from_pool.exit_code, 0) << from_pool.standard_error;
  const CsvRows expected = ParseCsv(from_file.standard_output), actual = ParseCsv(from_pool.standard_output);
  ASSERT_EQ(actual.size(), 7u);
  // The pool has 32-bit numbers, so the scores differ in their last digits.
  for (std::size_t i = 0; i < 7; ++i) EXPECT_EQ(actual[i].at("id"), expected[i].at("id"));
}

TEST_F(ImportTest, InspectTellsWhatIsThere) {
  folder_.Write("a.csv", "key,class,f0,f1,price\na,yes,1,2,5\nb,,3,4,\nc,no,1,2,1\nd,no,nan,2,1\n");
  const ProcessResult import =
      Import({File("a.csv"), "--id", "key", "--label", "class", "--cost", "price", "--max-rejected", "0.5"});
  ASSERT_EQ(import.exit_code, 0) << import.standard_error;
  EXPECT_THAT(import.standard_output, HasSubstr("1 rejected"));
  const nlohmann::json json = Inspect();
  EXPECT_EQ(json["rows"], 3);
  EXPECT_EQ(json["features"], 2);
  EXPECT_EQ(json["duplicates"], 1);
  EXPECT_EQ(json["rejected"], 1);
  EXPECT_EQ(json["labels"], (nlohmann::json{{"yes", 1}, {"no", 1}}));
  EXPECT_EQ(json["missing"]["labels"], 1);
  EXPECT_EQ(json["missing"]["costs"], 1);
  EXPECT_EQ(json["cost_sum"], 6.0);
  EXPECT_EQ(json["statistics"][1]["name"], "f1");
  EXPECT_EQ(json["statistics"][1]["maximum"], 4.0);
  const ProcessResult table = Run({"inspect", File("pool")});
  EXPECT_THAT(table.standard_output, HasSubstr("rows with copied features"));
}

TEST_F(ImportTest, BadRowsAboveTheShareFailWithReasons) {
  folder_.Write("a.csv", "id,f0\na,1\nb,x\n");
  const ProcessResult import = Import({File("a.csv")});
  EXPECT_EQ(import.exit_code, 65);
  EXPECT_THAT(import.standard_error, HasSubstr("1 of 2 rows cannot be taken"));
  EXPECT_THAT(import.standard_error, HasSubstr("a.csv, row 1, column 'f0': 'x' is not a number"));
  EXPECT_FALSE(std::filesystem::exists(File("pool")));
  EXPECT_TRUE(std::filesystem::exists(File("pool.rejected.parquet")));
}

TEST_F(ImportTest, GrowsById) {
  folder_.Write("a.csv", "id,f0\na,1\nb,2\n");
  folder_.Write("b.csv", "id,f0\nb,2\nc,3\n");
  ASSERT_EQ(Import({File("a.csv")}).exit_code, 0);
  const ProcessResult again = Import({File("a.csv"), File("b.csv")});
  ASSERT_EQ(again.exit_code, 0) << again.standard_error;
  EXPECT_THAT(again.standard_output, HasSubstr("3 rows x 1 features; 1 added, 3 existing"));
  EXPECT_EQ(Inspect()["rows"], 3);
}

TEST_F(ImportTest, BadOptionsAreNamed) {
  folder_.Write("a.csv", "id,f0\na,1\n");
  EXPECT_EQ(Import({File("a.csv"), "--memory", "lots"}).exit_code, 2);
  EXPECT_EQ(Import({File("a.csv"), "--max-rejected", "2"}).exit_code, 2);
  EXPECT_EQ(Import({File("a.csv"), "--id", "nobody"}).exit_code, 2);
  EXPECT_EQ(Import({File("absent.csv")}).exit_code, 65);
  EXPECT_EQ(Import({File("a.csv"), "--memory", "1KiB"}).exit_code, 75);
}

// The kernel kills a process whose file grows above a limit, so the place where the import dies is exact.
TEST_F(ImportTest, AKilledImportLeavesNoHalfPoolAndCanBeRunAgain) {
  std::string text = "id,f0,f1\n";
  for (int row = 0; row < 60000; ++row) absl::StrAppend(&text, "r", row, ",", row, ",", row % 7, "\n");
  folder_.Write("a.csv", text);
  for (const rlim_t bytes : {0, 100, 3000, 200000, 700000}) {
    std::filesystem::remove_all(File("pool"));
    const pid_t child = fork();
    if (child == 0) {
      const rlimit limit{bytes, bytes};
      setrlimit(RLIMIT_FSIZE, &limit);
      execl(FULCRUM_PROGRAM, FULCRUM_PROGRAM, "import", File("a.csv").c_str(), "--out", File("pool").c_str(), "--quiet",
            nullptr);
      _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << bytes;
    EXPECT_FALSE(std::filesystem::exists(File("pool"))) << bytes;
    const ProcessResult again = Import({File("a.csv")});
    ASSERT_EQ(again.exit_code, 0) << again.standard_error;
    EXPECT_EQ(Inspect()["rows"], 60000);
    EXPECT_FALSE(std::filesystem::exists(File("pool.importing")));
  }
}

}  // namespace
}  // namespace fulcrum::testing
