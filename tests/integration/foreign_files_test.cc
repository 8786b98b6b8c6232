// The program on files that others made: any format, pipes, hostile names, and more rows than there is memory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "arrow/array.h"
#include "arrow/builder.h"
#include "arrow/table.h"
#include "stages/ingest/formats/table_writer.h"
#include "tests/integration/program_fixture.h"
#include "tests/support/sanitizers.h"

namespace fulcrum::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ForeignFilesTest : public ProgramTest {
 protected:
  static ProcessResult Shell(const std::string& script, const std::vector<std::string>& words) {
    std::vector<std::string> all = {"sh", "-c", script, FULCRUM_PROGRAM};
    all.insert(all.end(), words.begin(), words.end());
    return RunProcess(all);
  }
  std::string WriteTable(const std::string& name, const std::string& column,
                         const std::shared_ptr<arrow::Array>& array) const {
    const auto table = arrow::Table::Make(arrow::schema({arrow::field(column, array->type())}), {array});
    const absl::Status status = ingest::WriteParquetFile(*table, File(name));
    EXPECT_TRUE(status.ok()) << status;
    return File(name);
  }
};

TEST_F(ForeignFilesTest, InspectShowsTheColumnsOfAnyFile) {
  folder_.Write("a.csv", "id,label,f0,name\na,yes,1,x\nb,,nan,\nc,no,,y\n");
  const ProcessResult text = Run({"inspect", File("a.csv")});
  EXPECT_EQ(text.exit_code, 0) << text.standard_error;
  EXPECT_THAT(text.standard_output, AllOf(HasSubstr("CSV"), HasSubstr("f0"), HasSubstr("feature")));
  ASSERT_EQ(Run({"convert", File("a.csv"), File("a.parquet"), "--quiet"}).exit_code, 0);
  for (const char* name : {"a.csv", "a.parquet"}) {
    const ProcessResult result = Run({"inspect", File(name), "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.standard_error;
    const auto json = nlohmann::json::parse(result.standard_output);
    EXPECT_EQ(json["rows"], 3) << name;
    EXPECT_EQ(json["columns"].size(), 4u);
    EXPECT_EQ(json["columns"][0]["role"], "id");
    EXPECT_EQ(json["columns"][1]["role"], "label");
    EXPECT_EQ(json["columns"][2]["role"], "feature");
    EXPECT_EQ(json["columns"][2]["missing"], 1) << name;
    EXPECT_EQ(json["columns"][2]["not_finite"], 1) << name;
    EXPECT_EQ(json["labels"]["yes"], 1);
    EXPECT_EQ(json["labels"]["no"], 1);
  }
  const ProcessResult absent = Run({"inspect", File("absent.csv")});
  EXPECT_EQ(absent.exit_code, 65);
  EXPECT_THAT(absent.standard_error, HasSubstr("absent.csv"));
}

TEST_F(ForeignFilesTest, PipesAreReadLikeFiles) {
  WritePool(60);
  WriteLabels(8);
  const ProcessResult expected = Select({"--batch", "5"});
  ASSERT_EQ(expected.exit_code, 0) << expected.standard_error;
  ASSERT_EQ(Run({"convert", File("pool.csv"), File("pool.arrows"), "--quiet"}).exit_code, 0);
  for (const char* name : {"pool.csv", "pool.arrows"}) {
    const ProcessResult piped = Shell("cat \"$1\" | exec \"$0\" select --pool /dev/stdin --labels \"$2\" --batch 5",
                                      {File(name), File("labels.csv")});
    EXPECT_EQ(piped.exit_code, 0) << piped.standard_error;
    EXPECT_EQ(piped.standard_output, expected.standard_output) << name;
  }
  const ProcessResult labels =
      Shell("cat \"$2\" | exec \"$0\" select --pool \"$1\" --labels /dev/fd/3 --batch 5 3<&0 </dev/null",
            {File("pool.csv"), File("labels.csv")});
  EXPECT_EQ(labels.exit_code, 0) << labels.standard_error;
  EXPECT_EQ(labels.standard_output, expected.standard_output);
  const ProcessResult converted =
      Shell("\"$0\" convert /dev/stdin \"$2\" --quiet <\"$1\"", {File("pool.csv"), File("again.csv")});
  EXPECT_EQ(converted.exit_code, 0) << converted.standard_error;
  EXPECT_EQ(ParseCsv(Read("again.csv")).size(), 60u);
}

TEST_F(ForeignFilesTest, NothingInAFileReachesTheTerminalAsItIs) {
  const std::string evil("\x1b]0;owned\x07\0rest", 15);
  folder_.Write("pool.csv", absl::StrCat("id,f0\na,1\nb,", evil, "\n"));
  WriteLabels(2);
  const ProcessResult result = Select({});
  EXPECT_EQ(result.exit_code, 65);
  EXPECT_THAT(result.standard_error,
              AllOf(Not(HasSubstr("\x1b")), HasSubstr("\\x1b]0;owned\\x07\\x00rest' is not a number"),
                    HasSubstr("what to do")));
}

TEST_F(ForeignFilesTest, WhatCannotBeReadIsBadDataAndNamesTheFile) {
  arrow::StructBuilder structs(arrow::struct_({arrow::field("a", arrow::int64())}), arrow::default_memory_pool(),
                               {std::make_shared<arrow::Int64Builder>()});
  ASSERT_TRUE(structs.AppendEmptyValue().ok());
  const std::string path = WriteTable("odd.parquet", "s", structs.Finish().ValueOrDie());
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"convert", path, File("out.csv")},
                                             {"import", path, "--out", File("pool")},
                                             {"select", "--pool", path, "--labels", path}}) {
    const ProcessResult result = Run(words);
    EXPECT_EQ(result.exit_code, 65) << words[0] << ": " << result.standard_error;
    EXPECT_THAT(result.standard_error, HasSubstr("odd.parquet")) << words[0];
  }
}

TEST_F(ForeignFilesTest, AFullDiskIsNamed) {
  folder_.Write("in.csv", "id,f0\na,1\n");
  const ProcessResult result = Shell("exec \"$0\" inspect \"$1\" >/dev/full", {File("in.csv")});
  EXPECT_EQ(result.exit_code, 75) << result.standard_error;
  EXPECT_THAT(result.standard_error, HasSubstr("No space left on device"));
}

TEST_F(ForeignFilesTest, ManyEqualRowsDoNotTakeMoreMemoryThanIsAllowed) {
  if (kUnderSanitizer) GTEST_SKIP() << "a sanitizer takes far more memory than is allowed";
  arrow::FloatBuilder ones;
  ASSERT_TRUE(ones.AppendValues(std::vector<float>(20'000'000, 1.0F)).ok());
  const std::string path = WriteTable("ones.parquet", "x", ones.Finish().ValueOrDie());
  folder_.Write("labels.csv", "id,label\n0,a\n1,b\n");
  const ProcessResult result =
      Run({"select", "--pool", path, "--labels", File("labels.csv"), "--memory", "512MiB", "--out", File("batch.csv")});
  EXPECT_EQ(result.exit_code, 75) << result.standard_error;
  EXPECT_THAT(result.standard_error, AllOf(HasSubstr("ones.parquet"), HasSubstr("20000000 rows")));
  EXPECT_LT(result.peak_bytes, std::uint64_t{512} << 20);
}

TEST_F(ForeignFilesTest, ALongValueThatIsRepeatedDoesNotTakeMoreMemoryThanIsAllowed) {
  if (kUnderSanitizer) GTEST_SKIP() << "a sanitizer takes far more memory than is allowed";
  arrow::StringDictionaryBuilder words;
  const std::string word(1 << 20, 'x');
  for (int row = 0; row < 4000; ++row) ASSERT_TRUE(words.Append(word).ok());
  const std::string path = WriteTable("words.parquet", "text", words.Finish().ValueOrDie());
  const ProcessResult result = Run({"convert", path, File("out.csv"), "--memory", "256MiB"});
  EXPECT_EQ(result.exit_code, 75) << result.standard_error;
  EXPECT_THAT(result.standard_error, AllOf(HasSubstr("words.parquet"), HasSubstr("--memory is 256MiB")));
  EXPECT_LT(result.peak_bytes, std::uint64_t{512} << 20);
}

}  // namespace
}  // namespace fulcrum::testing
