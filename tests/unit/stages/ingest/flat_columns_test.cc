#include "stages/ingest/formats/flat_columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "arrow/array.h"
#include "arrow/builder.h"
#include "arrow/io/file.h"
#include "arrow/record_batch.h"
#include "arrow/table.h"
#include "parquet/arrow/reader.h"
#include "parquet/arrow/writer.h"
#include "parquet/file_reader.h"
#include "stages/core/random.h"
#include "stages/ingest/formats/table_source.h"
#include "stages/ingest/formats/table_writer.h"
#include "tests/support/temporary_directory.h"
#include "tests/unit/stages/ingest/arrow_tables.h"

namespace fulcrum::ingest {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kRows = 3000;

/// Few different values, so that dictionaries are used; every seventh is null where `with_nulls`.
template <typename Builder>
std::shared_ptr<arrow::Array> Numbers(std::uint64_t seed, bool with_nulls) {
  Builder builder;
  Random random(seed);
  for (std::int64_t row = 0; row < kRows; ++row) {
    const auto value = static_cast<typename Builder::value_type>(random.Below(500)) / 4;
    const bool null = with_nulls && random.Below(7) == 0;
    EXPECT_TRUE((null ? builder.AppendNull() : builder.Append(value)).ok());
  }
  return builder.Finish().ValueOrDie();
}

std::shared_ptr<arrow::Table> FourColumns() {
  const auto schema =
      arrow::schema({arrow::field("single", arrow::float32(), false), arrow::field("some_singles", arrow::float32()),
                     arrow::field("double", arrow::float64(), false), arrow::field("some_doubles", arrow::float64())});
  return arrow::Table::Make(schema, {Numbers<arrow::FloatBuilder>(1, false), Numbers<arrow::FloatBuilder>(2, true),
                                     Numbers<arrow::DoubleBuilder>(3, false), Numbers<arrow::DoubleBuilder>(4, true)});
}

struct Writing {
  const char* name;
  bool dictionary;
  parquet::Encoding::type encoding;
  parquet::ParquetDataPageVersion version;
  arrow::Compression::type codec;
  std::int64_t rows_per_group;
};

void Write(const arrow::Table& table, const std::string& path, const Writing& writing) {
  parquet::WriterProperties::Builder builder;
  builder.compression(writing.codec)->data_page_version(writing.version)->data_pagesize(700)->write_batch_size(100);
  if (!writing.dictionary) builder.disable_dictionary()->encoding(writing.encoding);
  const auto file = arrow::io::FileOutputStream::Open(path).ValueOrDie();
  const auto status =
      parquet::arrow::WriteTable(table, arrow::default_memory_pool(), file, writing.rows_per_group, builder.build());
  ASSERT_TRUE(status.ok()) << status.ToString();
  ASSERT_TRUE(file->Close().ok());
}

class FlatColumnsTest : public ::testing::TestWithParam<Writing> {
 protected:
  testing::TemporaryDirectory folder_;
};

TEST_P(FlatColumnsTest, GiveWhatArrowReads) {
  const std::string path = folder_.File("numbers.parquet");
  const auto table = FourColumns();
  Write(*table, path, GetParam());
  const std::shared_ptr<arrow::io::RandomAccessFile> input = arrow::io::ReadableFile::Open(path).ValueOrDie();
  const auto reader = parquet::ParquetFileReader::Open(input);
  const OpenParquetFile file = {reader.get(), input, parquet::default_reader_properties()};
  // Batches that end inside pages and row groups.
  for (const std::int64_t rows_per_batch : {1, 7, 640, 10'000}) {
    const auto columns = ReadFlatColumns(file, {table->schema(), {0, 1, 2, 3}, rows_per_batch});
    const auto read = columns->ToTable().ValueOrDie();
    ASSERT_TRUE(read->ValidateFull().ok());
    EXPECT_TRUE(read->Equals(*table)) << "in batches of " << rows_per_batch;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Files, FlatColumnsTest,
    ::testing::Values(Writing{"Dictionary", true, parquet::Encoding::PLAIN, parquet::ParquetDataPageVersion::V1,
                              arrow::Compression::ZSTD, 1000},
                      Writing{"Plain", false, parquet::Encoding::PLAIN, parquet::ParquetDataPageVersion::V1,
                              arrow::Compression::SNAPPY, 1 << 20},
                      Writing{"SecondVersion", false, parquet::Encoding::PLAIN, parquet::ParquetDataPageVersion::V2,
                              arrow::Compression::UNCOMPRESSED, 999},
                      Writing{"SplitStreams", false, parquet::Encoding::BYTE_STREAM_SPLIT,
                              parquet::ParquetDataPageVersion::V2, arrow::Compression::ZSTD, 1}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST(FlatColumnKindTest, OthersAreLeftToArrow) {
  const testing::TemporaryDirectory folder;
  const std::string path = folder.File("kinds.parquet");
  WriteParquetTo(path, *TableOf({{"single", Floats({1})},
                                 {"double", Doubles({1})},
                                 {"half", Halves({1})},
                                 {"integer", Integers({1})},
                                 {"text", Texts({"1"})},
                                 {"list", FloatLists({{1, 2}})}}));
  parquet::arrow::FileReaderBuilder builder;
  ASSERT_TRUE(builder.OpenFile(path).ok());
  const auto reader = builder.Build().ValueOrDie();
  std::vector<bool> flat;
  for (int field = 0; field < 6; ++field) flat.push_back(IsFlatColumn(reader->manifest(), field));
  EXPECT_THAT(flat, ::testing::ElementsAre(true, true, false, false, false, false));
}

/// Reads a file of 3,000 rows whose row group says that it has another number of them.
absl::Status ReadWithClaim(const testing::TemporaryDirectory& folder, char first_byte) {
  const std::string path = folder.File("claims.parquet");
  Write(*FourColumns()->SelectColumns({0}).ValueOrDie(), path,
        {"", false, parquet::Encoding::PLAIN, parquet::ParquetDataPageVersion::V1, arrow::Compression::UNCOMPRESSED,
         1 << 20});
  std::ifstream written(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(written), {});
  // Thrift writes 3,000 so; the last one in the footer is the row group's.
  const std::size_t claim = bytes.rfind("\xf0\x2e");
  EXPECT_NE(claim, std::string::npos);
  bytes[claim] = first_byte;
  folder.Write("claims.parquet", bytes);
  auto source = OpenParquet(path, {});
  absl::Status status = source.status();
  while (status.ok()) {
    const auto batch = (*source)->Next();
    status = batch.status();
    if (status.ok() && *batch == nullptr) break;
  }
  return status;
}

TEST(FlatColumnClaimsTest, ARowGroupThatClaimsOtherRowsThanAColumnHasIsDamaged) {
  const testing::TemporaryDirectory folder;
  EXPECT_TRUE(ReadWithClaim(folder, '\xf0').ok());
  const absl::Status more = ReadWithClaim(folder, '\xf2');
  EXPECT_THAT(std::string(more.message()), HasSubstr("row group 0 of 1"));
  EXPECT_THAT(std::string(more.message()), HasSubstr("'single' has fewer rows than its row group claims"));
  const absl::Status fewer = ReadWithClaim(folder, '\xee');
  EXPECT_THAT(std::string(fewer.message()), HasSubstr("'single' has more rows than its row group claims"));
}

}  // namespace
}  // namespace fulcrum::ingest
