// --memory holds for every command that reads files, also for files of some hundred kilobytes that unpack to gigabytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "arrow/builder.h"
#include "arrow/io/file.h"
#include "arrow/table.h"
#include "parquet/arrow/writer.h"
#include "tests/integration/program_fixture.h"
#include "tests/support/sanitizers.h"

namespace fulcrum::testing {
namespace {

using Words = std::vector<std::string>;

constexpr char kMemory[] = "400MiB";
constexpr std::uint64_t kMemoryBytes = std::uint64_t{400} << 20;
constexpr std::int64_t kRowsPerGroup = 1'000'000;

std::shared_ptr<arrow::Array> Finish(arrow::ArrayBuilder& builder) {
  return builder.Finish().ValueOrDie();
}

/// The same batch again and again, one row group each.
void WriteGroups(const std::string& path, const std::shared_ptr<arrow::RecordBatch>& batch, int groups) {
  const auto file = arrow::io::FileOutputStream::Open(path).ValueOrDie();
  const auto properties = parquet::WriterProperties::Builder().compression(arrow::Compression::ZSTD)->build();
  const auto writer =
      parquet::arrow::FileWriter::Open(*batch->schema(), arrow::default_memory_pool(), file, properties).ValueOrDie();
  const auto table = arrow::Table::FromRecordBatches({batch}).ValueOrDie();
  for (int i = 0; i < groups; ++i) ASSERT_TRUE(writer->WriteTable(*table, batch->num_rows()).ok());
  ASSERT_TRUE(writer->Close().ok());
  ASSERT_TRUE(file->Close().ok());
}

/// Rows with one feature and a label, all the same.
void WriteManyRows(const std::string& path, int groups) {
  arrow::DoubleBuilder features;
  arrow::StringBuilder labels;
  ASSERT_TRUE(features.AppendValues(std::vector<double>(kRowsPerGroup, 1.0)).ok());
  for (std::int64_t i = 0; i < kRowsPerGroup; ++i) ASSERT_TRUE(labels.Append("a").ok());
  const auto schema = arrow::schema({arrow::field("f", arrow::float64()), arrow::field("label", arrow::utf8())});
  WriteGroups(path, arrow::RecordBatch::Make(schema, kRowsPerGroup, {Finish(features), Finish(labels)}), groups);
}

/// A few rows, each with a map of many texts: 200 MB of characters in each of the groups.
void WriteLargeMaps(const std::string& path, int groups) {
  constexpr int kRows = 20, kEntries = 50'000;
  const auto keys = std::make_shared<arrow::StringBuilder>();
  const auto values = std::make_shared<arrow::StringBuilder>();
  arrow::MapBuilder maps(arrow::default_memory_pool(), keys, values);
  arrow::DoubleBuilder features;
  for (int row = 0; row < kRows; ++row) {
    ASSERT_TRUE(features.Append(row).ok());
    ASSERT_TRUE(maps.Append().ok());
    for (int entry = 0; entry < kEntries; ++entry) {
      ASSERT_TRUE(keys->Append(std::string(100, 'k')).ok());
      ASSERT_TRUE(values->Append(std::string(100, 'v')).ok());
    }
  }
  const auto schema = arrow::schema({arrow::field("f", arrow::float64()), arrow::field("m", maps.type())});
  WriteGroups(path, arrow::RecordBatch::Make(schema, kRows, {Finish(features), Finish(maps)}), groups);
}

class MemoryLimitTest : public ProgramTest {
 protected:
  void SetUp() override {
    if (kUnderSanitizer) GTEST_SKIP() << "a sanitizer takes memory of its own";
  }

  /// Runs a command with --memory; `exit_codes` are those that are right.
  void ExpectWithinMemory(Words words, const std::vector<int>& exit_codes) const {
    words.insert(words.end(), {"--memory", kMemory});
    const ProcessResult result = Run(words);
    EXPECT_THAT(exit_codes, ::testing::Contains(result.exit_code))
        << words[0] << " " << words[1] << ": " << result.signal << result.standard_error;
    EXPECT_LT(result.peak_bytes, kMemoryBytes) << words[0] << " " << words[1];
    EXPECT_TRUE(result.exit_code != 75 || absl::StrContains(result.standard_error, "MiB")) << result.standard_error;
  }

  Words OfServer(Words words) const {
    words.insert(words.end(), {"--server", "127.0.0.1:1"});
    return words;
  }
};

TEST_F(MemoryLimitTest, AFileOfAFewHundredKilobytesWith75MillionRows) {
  const std::string rows = File("rows.parquet");
  WriteManyRows(rows, 75);
  EXPECT_LT(std::filesystem::file_size(rows), 1'000'000u);
  folder_.Write("labels.csv", "id,label\n0,a\n1,b\n");
  folder_.Write("spec.yaml", absl::StrCat("name: rows\ntasks: [{name: rows, data: ", rows,
                                          ", positive: a}]\nstrategies: [random]\n", "runs: 1\nrounds: 1\nbatch: 1\n"));
  ExpectWithinMemory({"select", "--pool", rows, "--labels", File("labels.csv")}, {75});
  ExpectWithinMemory({"select", "--pool", File("labels.csv"), "--labels", rows}, {65});
  ExpectWithinMemory({"inspect", rows}, {0});
  ExpectWithinMemory({"experiment", "--spec", File("spec.yaml"), "--out", File("out")}, {75});
  ExpectWithinMemory(OfServer({"campaign", "import-labels", "c", rows}), {75});
  ExpectWithinMemory(OfServer({"work", "--campaign", "c", "--annotator", "a", "--oracle", rows}), {75});
}

TEST_F(MemoryLimitTest, CommandsThatPassRowsOnNeedNotHoldThem) {
  const std::string rows = File("rows.parquet");
  WriteManyRows(rows, 10);
  ExpectWithinMemory({"convert", rows, File("rows.csv")}, {0});
  ExpectWithinMemory({"convert", rows, File("again.parquet")}, {0});
  ExpectWithinMemory({"convert", File("rows.csv"), File("rows.arrow")}, {0});
  ExpectWithinMemory({"import", rows, "--out", File("pool")}, {0});
  ExpectWithinMemory({"select", "--pool", File("pool"), "--labels", File("rows.csv")}, {75, 65});
}

TEST_F(MemoryLimitTest, MapsOfLongTexts) {
  const std::string maps = File("maps.parquet");
  WriteLargeMaps(maps, 2);
  EXPECT_LT(std::filesystem::file_size(maps), 1'000'000u);
  folder_.Write("labels.csv", "id,label\n0,a\n1,b\n");
  ExpectWithinMemory({"inspect", maps}, {0, 65, 75});
  ExpectWithinMemory({"convert", maps, File("maps.arrow")}, {0, 65, 75});
  ExpectWithinMemory({"convert", maps, File("again.parquet")}, {0, 65, 75});
  ExpectWithinMemory({"import", maps, "--out", File("pool")}, {0, 65, 75});
  ExpectWithinMemory({"select", "--pool", maps, "--labels", File("labels.csv")}, {0, 2, 65, 75});
  ExpectWithinMemory(OfServer({"campaign", "import-labels", "c", maps}), {65, 75});
}

}  // namespace
}  // namespace fulcrum::testing
