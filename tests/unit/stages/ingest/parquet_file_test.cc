#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "arrow/api.h"
#include "arrow/util/logging.h"
#include "stages/core/random.h"
#include "stages/ingest/formats/table_writer.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::ingest {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr int kFileRows = 1000;
constexpr int kRowsPerGroup = 300;

/// Ids, numbers with gaps, text, and a list of features a row: one column of each shape a pool may have.
std::shared_ptr<arrow::Table> MixedTable() {
  arrow::Int64Builder ids;
  arrow::DoubleBuilder numbers;
  arrow::StringBuilder texts;
  const auto values = std::make_shared<arrow::FloatBuilder>();
  arrow::FixedSizeListBuilder features(arrow::default_memory_pool(), values, 3);
  Random random(7);
  for (int row = 0; row < kFileRows; ++row) {
    ARROW_CHECK_OK(ids.Append(row));
    ARROW_CHECK_OK(row % 7 == 0 ? numbers.AppendNull() : numbers.Append(random.Normal()));
    ARROW_CHECK_OK(texts.Append("text " + std::to_string(row % 50)));
    ARROW_CHECK_OK(features.Append());
    for (int feature = 0; feature < 3; ++feature) ARROW_CHECK_OK(values->Append(static_cast<float>(random.Normal())));
  }
  const auto schema = arrow::schema({arrow::field("id", arrow::int64()), arrow::field("number", arrow::float64()),
                                     arrow::field("text", arrow::utf8()), arrow::field("features", features.type())});
  return arrow::Table::Make(schema, {*ids.Finish(), *numbers.Finish(), *texts.Finish(), *features.Finish()});
}

std::string ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class ParquetFileCodecTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ParquetFileCodecTest, TableComesBackEqualFromSeveralRowGroups) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.File("table.parquet");
  const auto table = MixedTable();
  const absl::Status written = WriteParquetFile(*table, path, {.codec = GetParam(), .rows_per_group = kRowsPerGroup});
  ASSERT_TRUE(written.ok()) << written;
  const auto read = ReadParquetFile(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE((*read)->Equals(*table)) << (*read)->schema()->ToString();
  EXPECT_EQ((*read)->column(0)->num_chunks(), (kFileRows + kRowsPerGroup - 1) / kRowsPerGroup);
}

// Written out, because a build that lacks one of them has to fail.
INSTANTIATE_TEST_SUITE_P(EveryCodec, ParquetFileCodecTest,
                         ::testing::Values("uncompressed", "snappy", "gzip", "zstd", "lz4", "brotli"),
                         [](const auto& instance) { return instance.param; });

class ParquetFileTest : public ::testing::Test {
 protected:
  ParquetFileTest() : path_(directory_.File("table.parquet")) {
    const absl::Status written = WriteParquetFile(*MixedTable(), path_, {.rows_per_group = kRowsPerGroup});
    EXPECT_TRUE(written.ok()) << written;
    bytes_ = ReadBytes(path_);
  }

  const testing::TemporaryDirectory directory_;
  const std::string path_;
  std::string bytes_;
};

TEST_F(ParquetFileTest, CodecsAreListedAndAnUnknownOneIsRefusedWithTheList) {
  EXPECT_THAT(ParquetCodecs(), UnorderedElementsAre("uncompressed", "snappy", "gzip", "zstd", "lz4", "brotli"));
  const absl::Status status = WriteParquetFile(*MixedTable(), path_, {.codec = "rar"});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("brotli"));
}

TEST_F(ParquetFileTest, TableWithoutRowsKeepsItsSchema) {
  const auto empty = MixedTable()->Slice(0, 0);
  const std::string path = directory_.File("empty.parquet");
  ASSERT_TRUE(WriteParquetFile(*empty, path).ok());
  const auto read = ReadParquetFile(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ((*read)->num_rows(), 0);
  EXPECT_TRUE((*read)->schema()->Equals(empty->schema()));
}

TEST_F(ParquetFileTest, FailedWriteLeavesTheOldFileAndNothingElse) {
  const std::string folder_in_the_way = directory_.File("folder");
  std::filesystem::create_directory(folder_in_the_way);
  EXPECT_FALSE(WriteParquetFile(*MixedTable(), folder_in_the_way).ok());
  EXPECT_FALSE(WriteParquetFile(*MixedTable(), path_, {.rows_per_group = 0}).ok());
  EXPECT_EQ(ReadBytes(path_), bytes_);
  int entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) entries += entry.exists() ? 1 : 0;
  EXPECT_EQ(entries, 2);
}

TEST_F(ParquetFileTest, MissingFileIsNamed) {
  const auto read = ReadParquetFile(directory_.File("absent.parquet"));
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("absent.parquet"));
}

TEST_F(ParquetFileTest, TruncatedFileIsAnErrorWhereverItWasCut) {
  for (const double share : {0.0, 0.001, 0.1, 0.5, 0.9, 0.999}) {
    const auto size = static_cast<std::size_t>(share * static_cast<double>(bytes_.size()));
    const std::string cut = directory_.Write("cut.parquet", bytes_.substr(0, size));
    const auto read = ReadParquetFile(cut);
    ASSERT_FALSE(read.ok()) << "cut at " << size;
    EXPECT_THAT(std::string(read.status().message()), HasSubstr("cut.parquet"));
  }
}

TEST_F(ParquetFileTest, DamagedPageIsFoundByItsChecksumAndTheRowGroupIsNamed) {
  // The first half of the file is data pages of the first row groups, far from the footer.
  std::string damaged = bytes_;
  for (std::size_t i = 0; i < 64; ++i) damaged[damaged.size() / 8 + i] ^= 0x5a;
  const auto read = ReadParquetFile(directory_.Write("damaged.parquet", damaged));
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("damaged.parquet, row group 0 of 4"));
}

TEST_F(ParquetFileTest, AnyDamagedByteGivesAnErrorOrAValidTable) {
  Random random(11);
  int errors = 0;
  for (int trial = 0; trial < 300; ++trial) {
    std::string damaged = bytes_;
    const std::size_t position = random.Below(damaged.size());
    damaged[position] = static_cast<char>(damaged[position] ^ (1 + random.Below(255)));
    const auto read = ReadParquetFile(directory_.Write("damaged.parquet", damaged));
    if (read.ok()) {
      EXPECT_TRUE((*read)->ValidateFull().ok()) << "byte " << position;
    } else {
      ++errors;
    }
  }
  EXPECT_GT(errors, 150);
}

TEST_F(ParquetFileTest, LimitsAreKept) {
  const auto columns = ReadParquetFile(path_, {.max_columns = 3});
  EXPECT_EQ(columns.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(columns.status().message()), HasSubstr("4 columns"));
  const auto bytes = ReadParquetFile(path_, {.max_row_group_bytes = 1000});
  EXPECT_EQ(bytes.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(bytes.status().message()), HasSubstr("row group 0"));
  const auto memory = ReadParquetFile(path_, {.max_memory_bytes = 1000});
  EXPECT_EQ(memory.status().code(), absl::StatusCode::kResourceExhausted) << memory.status();
}

}  // namespace
}  // namespace fulcrum::ingest
