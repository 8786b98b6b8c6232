// Every format and every form of features must give the same pool.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "arrow/builder.h"
#include "arrow/table.h"
#include "arrow/util/decimal.h"
#include "stages/ingest/pool.h"
#include "tests/support/temporary_directory.h"
#include "tests/unit/stages/ingest/arrow_tables.h"
#include "tests/unit/stages/ingest/input_files.h"

namespace fulcrum::ingest {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TableFormatsTest : public ::testing::Test {
 protected:
  static std::string MessageOf(const absl::StatusOr<Pool>& pool) { return std::string(pool.status().message()); }
  std::string Parquet(const std::string& name, const std::vector<NamedArray>& columns, std::int64_t group = 1 << 20) {
    std::filesystem::create_directories(std::filesystem::path(folder_.File(name)).parent_path());
    WriteParquetTo(folder_.File(name), *TableOf(columns), group);
    return folder_.File(name);
  }
  testing::TemporaryDirectory folder_;
};

TEST_F(TableFormatsTest, ListsFixedListsAndColumnsAreOneThing) {
  const std::vector<std::vector<float>> rows = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}};
  for (const bool fixed : {false, true}) {
    const std::string path = Parquet("p.parquet",
                                     {{"id", Integers({10, 20, 30})},
                                      {"x", Doubles({-1, -2, -3})},
                                      {"embedding", fixed ? FixedFloatLists(rows) : FloatLists(rows)}},
                                     2);
    const auto pool = LoadPool(path);
    ASSERT_TRUE(pool.ok()) << pool.status();
    EXPECT_THAT(pool->feature_names, ElementsAre("x", "embedding[0]", "embedding[1]", "embedding[2]"));
    for (std::size_t row = 0; row < 3; ++row) {
      EXPECT_THAT(pool->features.dense().row(row),
                  ElementsAre(-1.0 - static_cast<double>(row), rows[row][0], rows[row][1], rows[row][2]));
    }
    EXPECT_EQ(pool->ids.Find("30"), 2u);
  }
}

TEST_F(TableFormatsTest, HalfFloatsAreNumbersInColumnsListsAndSparsePairs) {
  const auto table = TableOf({{"h", Halves({1.5F, -65504.0F})}, {"e", HalfLists({{0.25F, 2}, {-3, 6e-8F}})}});
  WriteIpcFileTo(folder_.File("h.arrow"), *table);
  WriteParquetTo(folder_.File("h.parquet"), *table);
  for (const char* name : {"h.arrow", "h.parquet"}) {
    const auto pool = LoadPool(folder_.File(name));
    ASSERT_TRUE(pool.ok()) << pool.status();
    EXPECT_THAT(pool->features.dense().row(0), ElementsAre(1.5, 0.25, 2));
    // The smallest half float there is.
    EXPECT_THAT(pool->features.dense().row(1), ElementsAre(-65504, -3, 0x1p-24));
  }
  const auto sparse = LoadPool(
      Parquet("s.parquet", {{"indices", IndexLists({{7, 2}, {0}})}, {"values", HalfLists({{1, 0.5F}, {-2}})}}));
  ASSERT_TRUE(sparse.ok()) << sparse.status();
  EXPECT_THAT(sparse->features.sparse().values, ElementsAre(0.5, 1, -2));
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  const auto bad = LoadPool(Parquet("b.parquet", {{"h", Halves({1, nan, infinity})}}));
  EXPECT_THAT(MessageOf(bad), HasSubstr("column 'h': the value is NaN"));
  EXPECT_THAT(MessageOf(bad), HasSubstr("column 'h': the value inf is infinite"));
}

TEST_F(TableFormatsTest, ListsOfAnotherLengthAndBadElementsAreNamed) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto pool = LoadPool(Parquet("p.parquet", {{"e", FloatLists({{1, 2}, {1}, {3, nan}, {5, 6}})}}));
  EXPECT_EQ(pool.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(MessageOf(pool), HasSubstr("row 1 (row group 0 of 1), column 'e': the list has 1 values instead of 2"));
  EXPECT_THAT(MessageOf(pool), HasSubstr("row 2 (row group 0 of 1), column 'e': at 1: the value is NaN"));
}

TEST_F(TableFormatsTest, SparsePairsStaySparseWhateverTheOrder) {
  const auto pool = LoadPool(Parquet("p.parquet", {{"id", Texts({"a", "b", "c"})},
                                                   {"indices", IndexLists({{7, 2}, {}, {0}})},
                                                   {"values", FloatLists({{1, 2}, {}, {3}})}}));
  ASSERT_TRUE(pool.ok()) << pool.status();
  ASSERT_TRUE(pool->features.is_sparse());
  EXPECT_EQ(pool->features.cols(), 8u);
  EXPECT_THAT(pool->features.sparse().columns, ElementsAre(2, 7, 0));
  EXPECT_THAT(pool->features.sparse().values, ElementsAre(2, 1, 3));
  const auto bad = LoadPool(Parquet(
      "q.parquet", {{"indices", IndexLists({{1, 1}, {-1}, {1, 2}})}, {"values", FloatLists({{1, 2}, {1}, {3}})}}));
  EXPECT_THAT(MessageOf(bad), HasSubstr("row 0 (row group 0 of 1), column 'values': the index 1 comes twice"));
  EXPECT_THAT(MessageOf(bad), HasSubstr("the index at 0 is not between 0 and 16777215"));
  EXPECT_THAT(MessageOf(bad), HasSubstr("there are 2 indices and 1 values"));
}

TEST_F(TableFormatsTest, IpcFilesAndStreamsPlainAndCompressed) {
  const auto table = TableOf({{"id", Texts({"a", "b"})}, {"x", Floats({1.5, 2.5})}, {"y", Integers({3, 4})}});
  WriteIpcFileTo(folder_.File("file.arrow"), *table);
  const std::string stream = IpcStreamOf(*table);
  for (const std::string& path :
       {folder_.File("file.arrow"), folder_.Write("stream.arrow", stream), folder_.Write("stream.arrows", stream),
        WriteCompressed(folder_, "stream.arrows.gz", stream, arrow::Compression::GZIP),
        WriteCompressed(folder_, "stream.ipc.zst", stream, arrow::Compression::ZSTD)}) {
    const auto pool = LoadPool(path);
    ASSERT_TRUE(pool.ok()) << pool.status();
    EXPECT_THAT(pool->features.dense().row(1), ElementsAre(2.5, 4));
    EXPECT_EQ(pool->ids.TextOf(1), "b");
    const auto some = LoadPool(path, {.columns = {.features = {"y"}}});
    ASSERT_TRUE(some.ok()) << some.status();
    EXPECT_THAT(some->features.dense().row(0), ElementsAre(3));
  }
}

TEST_F(TableFormatsTest, ColumnsByOption) {
  const std::string path = Parquet("p.parquet", {{"key", Integers({1, 2})},
                                                 {"class", Texts({"yes", "no"})},
                                                 {"price", Doubles({1, 2})},
                                                 {"text", Texts({"hello", "world"})},
                                                 {"x", Floats({3, 4})}});
  EXPECT_THAT(MessageOf(LoadPool(path, {.columns = {.id = "nokey"}})),
              HasSubstr("has no column 'nokey'; its columns are 'key', 'class', 'price'"));
  EXPECT_THAT(MessageOf(LoadPool(path, {.columns = {.id = "key", .label = "key"}})), HasSubstr("two purposes"));
  const std::string other = Parquet("other.parquet", {{"key;class", Integers({1, 2})}});
  EXPECT_THAT(MessageOf(LoadPool(other, {.columns = {.id = "key"}})), HasSubstr("values are separated by commas"));
  const auto pool = LoadPool(
      path, {.keep_labels = true, .columns = {.id = "key", .label = "class", .cost = "price", .payload = "text"}});
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_THAT(pool->feature_names, ElementsAre("x"));
  EXPECT_THAT(*pool->labels, ElementsAre("yes", "no"));
  EXPECT_EQ(pool->ids.TextOf(0), "1");
}

TEST_F(TableFormatsTest, FoldersGlobsAndListsAreOneTable) {
  Parquet("in/b.parquet", {{"id", Texts({"b"})}, {"x", Floats({2})}});
  Parquet("in/a.parquet", {{"id", Texts({"a"})}, {"x", Floats({1})}});
  Parquet("in/_skip.parquet", {{"id", Texts({"no"})}, {"x", Floats({9})}});
  Parquet("in/deep/c.parquet", {{"id", Texts({"c"})}, {"x", Floats({3})}});
  std::ofstream(folder_.File("in/notes.txt")) << "not a table";
  const auto folder = LoadPool(folder_.File("in"));
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_EQ(folder->ids.size(), 3u);
  EXPECT_EQ(folder->ids.TextOf(0), "a");
  EXPECT_EQ(folder->features.dense()(2, 0), 3);
  const auto glob = LoadPool(folder_.File("in/[ab].parquet"));
  ASSERT_TRUE(glob.ok()) << glob.status();
  EXPECT_EQ(glob->ids.size(), 2u);
  const auto uri = LoadPool("file://" + folder_.File("in/*.parquet"));
  ASSERT_TRUE(uri.ok()) << uri.status();
  EXPECT_EQ(uri->ids.size(), 2u);
  const auto list = LoadPool(std::vector<std::string>{folder_.File("in/deep"), folder_.File("in/a.parquet")});
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->ids.TextOf(0), "c");
  EXPECT_EQ(LoadPool(folder_.File("in/*.csv")).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(TableFormatsTest, OtherSchemesAreRefusedWithTheWayOut) {
  for (const char* uri : {"s3://bucket/pool.parquet", "https://example.org/pool.csv", "hdfs://host/pool/*.parquet"}) {
    const auto pool = LoadPool(uri);
    EXPECT_EQ(pool.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(MessageOf(pool), AllOf(HasSubstr(uri), HasSubstr("only paths and file:// URIs")));
  }
}

TEST_F(TableFormatsTest, HivePartitionsAreColumns) {
  Parquet("h/year=2024/lang=fr/p.parquet", {{"id", Texts({"a"})}, {"x", Floats({1})}});
  Parquet("h/year=2025/lang=a%2Fb/p.parquet", {{"id", Texts({"b"})}, {"x", Floats({2})}});
  const auto pool = LoadPool(folder_.File("h"), {.keep_labels = true, .columns = {.label = "lang"}});
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_THAT(pool->feature_names, ElementsAre("x"));
  EXPECT_THAT(*pool->labels, ElementsAre("fr", "a/b"));
  const auto named = LoadPool(folder_.File("h"), {.columns = {.features = {"x", "year"}}});
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_THAT(named->features.dense().row(1), ElementsAre(2, 2025));
}

TEST_F(TableFormatsTest, FilesThatDoNotFitTogetherAreNamed) {
  Parquet("in/a.parquet", {{"x", Floats({1})}});
  Parquet("in/b.parquet", {{"y", Floats({1})}});
  const auto pool = LoadPool(folder_.File("in"));
  EXPECT_EQ(pool.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(MessageOf(pool), HasSubstr("b.parquet' has other columns"));
  Parquet("bad/a.parquet", {{"x", Floats({1, 2})}});
  Parquet("bad/b.parquet", {{"x", Floats({1, std::numeric_limits<float>::infinity()})}});
  EXPECT_THAT(MessageOf(LoadPool(folder_.File("bad"))), HasSubstr("b.parquet, row 1 (row group 0 of 1), column 'x'"));
}

// Arrow's parser would end the process if its memory were refused, so this must not get as far as that.
TEST_F(TableFormatsTest, CsvInTooLittleMemoryIsAnError) {
  std::string text = "x,y\n";
  for (int row = 0; row < 50'000; ++row) text += "1,2\n";
  const std::string path = folder_.Write("many.csv", text);
  for (const std::int64_t memory : {std::int64_t{1} << 10, std::int64_t{1} << 20, std::int64_t{4} << 20}) {
    EXPECT_EQ(LoadPool(path, {.limits = {.max_memory_bytes = memory}}).status().code(),
              absl::StatusCode::kResourceExhausted)
        << memory;
  }
  EXPECT_TRUE(LoadPool(path, {.limits = {.max_memory_bytes = std::int64_t{64} << 20}}).ok());
}

TEST_F(TableFormatsTest, TruthValuesAndDecimalsAreFeatures) {
  arrow::BooleanBuilder truths;
  ASSERT_TRUE(truths.Append(true).ok() && truths.Append(false).ok());
  arrow::Decimal128Builder decimals(arrow::decimal128(10, 3));
  arrow::Decimal256Builder large(arrow::decimal256(50, 1));
  ASSERT_TRUE(decimals.Append(arrow::Decimal128(1250)).ok() && decimals.Append(arrow::Decimal128(-7)).ok());
  ASSERT_TRUE(large.Append(arrow::Decimal256(15)).ok() && large.Append(arrow::Decimal256(20)).ok());
  const std::string path = Parquet("p.parquet", {{"late", truths.Finish().ValueOrDie()},
                                                 {"price", decimals.Finish().ValueOrDie()},
                                                 {"sum", large.Finish().ValueOrDie()}});
  const auto pool = LoadPool(path);
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_THAT(pool->features.dense().row(0), ElementsAre(1, 1.25, 1.5));
  EXPECT_THAT(pool->features.dense().row(1), ElementsAre(0, -0.007, 2));
  const auto text = LoadPool(folder_.Write("p.csv", "late,x\nTrue,1\nfalse,2\n"));
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(text->features.dense().row(0), ElementsAre(1, 1));
  EXPECT_THAT(text->features.dense().row(1), ElementsAre(0, 2));
}

TEST_F(TableFormatsTest, ATruthValueThatIsMissingIsReported) {
  arrow::BooleanBuilder truths;
  ASSERT_TRUE(truths.Append(true).ok() && truths.AppendNull().ok());
  const std::string path = Parquet("p.parquet", {{"late", truths.Finish().ValueOrDie()}});
  EXPECT_THAT(MessageOf(LoadPool(path)), HasSubstr("row 1 (row group 0 of 1), column 'late': the value is missing"));
}

TEST_F(TableFormatsTest, BytesThatAreNotTextAreAPayload) {
  arrow::BinaryBuilder bytes;
  const std::string image("\xff\xd8\x00\x10", 4);
  ASSERT_TRUE(bytes.Append(image).ok() && bytes.Append("").ok());
  const std::string path = Parquet("p.parquet", {{"x", Floats({1, 2})}, {"image", bytes.Finish().ValueOrDie()}});
  const auto pool = LoadPool(path, {.keep_payloads = true, .columns = {.payload = "image"}});
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_THAT(pool->payloads, ElementsAre(image, ""));
}

TEST_F(TableFormatsTest, APayloadThatCannotBeCarriedIsReportedWithTheFile) {
  const std::string path = Parquet("p.parquet", {{"x", Floats({1})}, {"e", FloatLists({{1, 2}})}});
  const auto pool = LoadPool(path, {.keep_payloads = true, .columns = {.payload = "e"}});
  EXPECT_EQ(pool.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(MessageOf(pool), HasSubstr("p.parquet, column 'e' has the type list"));
}

TEST_F(TableFormatsTest, ALongRowOfCsvIsReportedWithItsLine) {
  const std::string path = folder_.Write("long.csv", "id,x\na,1\n" + std::string(5 << 20, 'b') + ",2\nc,3\n");
  EXPECT_THAT(MessageOf(LoadPool(path)),
              AllOf(HasSubstr("long.csv: line 3 is longer than 1 MiB"), HasSubstr("Parquet")));
}

TEST_F(TableFormatsTest, AFileOfAnotherFormatIsNoArrow) {
  const std::string parquet = Parquet("p.parquet", {{"x", Floats({1, 2})}});
  std::filesystem::copy_file(parquet, folder_.File("p.arrow"));
  const auto pool = LoadPool(folder_.File("p.arrow"));
  EXPECT_EQ(pool.status().code(), absl::StatusCode::kDataLoss) << pool.status();
  EXPECT_THAT(MessageOf(pool), AllOf(HasSubstr("p.arrow"), HasSubstr("this is a Parquet file")));
  for (const char* text : {"id,x\n1,2\n3,4\n", "", "abc"}) {
    EXPECT_EQ(LoadPool(folder_.Write("t.arrow", text)).status().code(), absl::StatusCode::kDataLoss) << text;
  }
}

TEST_F(TableFormatsTest, RowsThatDoNotFitAreRefusedBeforeTheyAreRead) {
  const std::size_t rows = 300'000;
  const std::string path = Parquet("many.parquet", {{"x", Floats(std::vector<float>(rows, 1.0F))}});
  PoolOptions options = {.limits = {.max_memory_bytes = std::int64_t{8} << 20}};
  std::size_t read = 0;
  options.on_progress = [&](std::size_t) { ++read; };
  const auto pool = LoadPool(path, options);
  EXPECT_EQ(pool.status().code(), absl::StatusCode::kResourceExhausted) << pool.status();
  EXPECT_THAT(MessageOf(pool), HasSubstr("300000 rows of 1 features do not fit the 8 MiB"));
  EXPECT_EQ(read, 0u);
  options.limits.max_memory_bytes = std::int64_t{64} << 20;
  EXPECT_TRUE(LoadPool(path, options).ok());
  options.extra_bytes_per_row = 300;
  EXPECT_EQ(LoadPool(path, options).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(TableFormatsTest, LimitsAreKept) {
  const std::string path = Parquet("p.parquet", {{"x", Floats({1})}, {"y", Floats({1})}});
  EXPECT_EQ(LoadPool(path, {.limits = {.max_columns = 1}}).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(LoadPool(path, {.limits = {.max_row_group_bytes = 8}}).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(LoadPool(path, {.limits = {.max_memory_bytes = 100}}).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace fulcrum::ingest
