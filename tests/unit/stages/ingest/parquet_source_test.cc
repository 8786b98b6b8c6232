#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "arrow/array.h"
#include "arrow/builder.h"
#include "arrow/io/file.h"
#include "arrow/table.h"
#include "parquet/arrow/writer.h"
#include "stages/core/random.h"
#include "stages/ingest/formats/table_writer.h"
#include "stages/ingest/pool.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::ingest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kParquetRows = 3000;

std::shared_ptr<arrow::Array> Finish(arrow::ArrayBuilder& builder) {
  return builder.Finish().ValueOrDie();
}

// id: integers from 1000; f32: row / 4; f64: random; i16: row % 100.
std::shared_ptr<arrow::Table> MakeTable() {
  arrow::Int64Builder ids;
  arrow::FloatBuilder singles;
  arrow::DoubleBuilder doubles;
  arrow::Int16Builder shorts;
  Random random(5);
  for (std::int64_t row = 0; row < kParquetRows; ++row) {
    EXPECT_TRUE(ids.Append(1000 + row).ok());
    EXPECT_TRUE(singles.Append(static_cast<float>(row) / 4).ok());
    EXPECT_TRUE(doubles.Append(random.Normal()).ok());
    EXPECT_TRUE(shorts.Append(static_cast<std::int16_t>(row % 100)).ok());
  }
  const auto schema = arrow::schema({arrow::field("id", arrow::int64()), arrow::field("f32", arrow::float32()),
                                     arrow::field("f64", arrow::float64()), arrow::field("i16", arrow::int16())});
  return arrow::Table::Make(schema, {Finish(ids), Finish(singles), Finish(doubles), Finish(shorts)});
}

void WriteParquet(const arrow::Table& table, const std::string& path,
                  arrow::Compression::type codec = arrow::Compression::UNCOMPRESSED) {
  const auto file = arrow::io::FileOutputStream::Open(path).ValueOrDie();
  const auto properties = parquet::WriterProperties::Builder().compression(codec)->build();
  const auto status = parquet::arrow::WriteTable(table, arrow::default_memory_pool(), file, 1000, properties);
  ASSERT_TRUE(status.ok()) << status.ToString();
  ASSERT_TRUE(file->Close().ok());
}

class ParquetPoolTest : public ::testing::Test {
 protected:
  testing::TemporaryDirectory folder_;
};

class ParquetPoolCodecTest : public ParquetPoolTest, public ::testing::WithParamInterface<arrow::Compression::type> {};

TEST_P(ParquetPoolCodecTest, APoolReadsBackAsItWasWritten) {
  const std::string path = folder_.File("pool.parquet");
  WriteParquet(*MakeTable(), path, GetParam());
  const auto pool = LoadPool(path);
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_THAT(pool->feature_names, ElementsAre("f32", "f64", "i16"));
  ASSERT_EQ(pool->features.rows(), static_cast<std::size_t>(kParquetRows));
  EXPECT_EQ(pool->ids.TextOf(2999), "3999");
  Random random(5);
  for (std::size_t row = 0; row < static_cast<std::size_t>(kParquetRows); ++row) {
    ASSERT_THAT(pool->features.dense().row(row), ElementsAre(static_cast<double>(row) / 4, random.Normal(), row % 100));
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, ParquetPoolCodecTest,
                         ::testing::Values(arrow::Compression::UNCOMPRESSED, arrow::Compression::SNAPPY,
                                           arrow::Compression::GZIP, arrow::Compression::BROTLI,
                                           arrow::Compression::ZSTD, arrow::Compression::LZ4),
                         [](const auto& codec) { return arrow::util::Codec::GetCodecAsString(codec.param); });

TEST_F(ParquetPoolTest, LabelsCanComeFromParquetToo) {
  arrow::StringBuilder labels;
  arrow::Int32Builder ids;
  ASSERT_TRUE(labels.AppendValues({"pos", "neg"}).ok());
  ASSERT_TRUE(ids.AppendValues({2, 0}).ok());
  const auto schema = arrow::schema({arrow::field("label", arrow::utf8()), arrow::field("id", arrow::int32())});
  WriteParquet(*arrow::Table::Make(schema, {Finish(labels), Finish(ids)}), folder_.File("labels.parquet"));
  const auto loaded = LoadLabelFile(folder_.File("labels.parquet"), RowIds(std::size_t{3}));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(*loaded, ElementsAre(::testing::FieldsAre(0, "neg"), ::testing::FieldsAre(2, "pos")));
}

TEST_F(ParquetPoolTest, NullAndNaNAreNamedByRowAndColumn) {
  arrow::DoubleBuilder values;
  ASSERT_TRUE(values.AppendValues({1.0, std::numeric_limits<double>::quiet_NaN()}).ok());
  ASSERT_TRUE(values.AppendNull().ok());
  const auto table = arrow::Table::Make(arrow::schema({arrow::field("x", arrow::float64())}), {Finish(values)});
  WriteParquet(*table, folder_.File("bad.parquet"));
  const std::string error(LoadPool(folder_.File("bad.parquet")).status().message());
  EXPECT_THAT(error, HasSubstr("row 1 (row group 0 of 1), column 'x': the value is NaN"));
  EXPECT_THAT(error, HasSubstr("row 2 (row group 0 of 1), column 'x': the value is missing"));
}

TEST_F(ParquetPoolTest, AColumnThatCannotBeAFeatureIsNamed) {
  arrow::Date32Builder days;
  ASSERT_TRUE(days.Append(1).ok());
  const auto table = arrow::Table::Make(arrow::schema({arrow::field("day", arrow::date32())}), {Finish(days)});
  WriteParquet(*table, folder_.File("day.parquet"));
  EXPECT_THAT(std::string(LoadPool(folder_.File("day.parquet")).status().message()),
              HasSubstr("column 'day': values of the type date32[day] cannot be a feature"));
}

TEST_F(ParquetPoolTest, IgnoredColumnsCanHaveAnyTypeAndName) {
  arrow::Date32Builder days;
  ASSERT_TRUE(days.Append(1).ok());
  arrow::StringBuilder labels;
  ASSERT_TRUE(labels.Append("a note").ok());
  arrow::FloatBuilder values;
  ASSERT_TRUE(values.Append(3).ok());
  const auto table =
      arrow::Table::Make(arrow::schema({arrow::field("day", arrow::date32()), arrow::field("label", arrow::utf8()),
                                        arrow::field("x", arrow::float32())}),
                         {Finish(days), Finish(labels), Finish(values)});
  WriteParquet(*table, folder_.File("mixed.parquet"));
  const PoolOptions options{.keep_labels = true, .columns = {.ignored = {"day", "label", "of another file"}}};
  const auto pool = LoadPool(folder_.File("mixed.parquet"), options);
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_THAT(pool->feature_names, ElementsAre("x"));
  EXPECT_FALSE(pool->labels.has_value());
  EXPECT_THAT(
      std::string(
          LoadPool(folder_.File("mixed.parquet"), {.columns = {.id = "day", .ignored = {"day"}}}).status().message()),
      HasSubstr("'day' is ignored, and named for a purpose"));
}

TEST_F(ParquetPoolTest, DamagedFilesAreErrorsNotCrashes) {
  const std::string path = folder_.File("pool.parquet");
  WriteParquet(*MakeTable(), path, arrow::Compression::ZSTD);
  const auto size = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, size / 2);
  const auto cut = LoadPool(path);
  EXPECT_EQ(cut.status().code(), absl::StatusCode::kDataLoss) << cut.status();
  EXPECT_THAT(std::string(cut.status().message()), HasSubstr("pool.parquet"));
  EXPECT_EQ(LoadPool(folder_.Write("text.parquet", "id,f0\n1,2\n")).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace fulcrum::ingest
