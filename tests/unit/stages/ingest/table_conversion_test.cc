#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "arrow/builder.h"
#include "arrow/table.h"
#include "stages/ingest/formats/table_writer.h"
#include "stages/ingest/pool.h"
#include "tests/support/temporary_directory.h"
#include "tests/unit/stages/ingest/arrow_tables.h"

namespace fulcrum::ingest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TableConversionTest : public ::testing::Test {
 protected:
  std::string Convert(const std::string& from, const std::string& to) {
    const auto rows = ConvertTable({folder_.File(from)}, folder_.File(to));
    EXPECT_TRUE(rows.ok()) << from << " to " << to << ": " << rows.status();
    return folder_.File(to);
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(folder_.File(name), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  testing::TemporaryDirectory folder_;
};

TEST_F(TableConversionTest, EveryFormatComesBackToTheSameText) {
  const std::string text = "id,label,f0,f1\na,yes,1.5,3\n\"b,c\",no,-2e-300,4\nd,no,0.1,5\n";
  folder_.Write("in.csv", text);
  std::string last = "in.csv";
  for (const char* next : {"a.parquet", "b.arrow", "c.arrows", "d.csv.gz", "e.feather", "f.arrows.zst", "g.csv"}) {
    Convert(last, next);
    last = next;
  }
  EXPECT_EQ(Read("g.csv"), text);
}

TEST_F(TableConversionTest, TextBecomesWhatItReadsAs) {
  folder_.Write("in.csv", "id,whole,number,text\n1,1,1,1\n2,,2.5,x\n");
  Convert("in.csv", "out.parquet");
  const auto pool = LoadPool(folder_.File("out.parquet"), {.columns = {.features = {"number"}}});
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_EQ(pool->features.dense()(1, 0), 2.5);
  Convert("out.parquet", "again.csv");
  EXPECT_EQ(Read("again.csv"), "id,whole,number,text\n1,1,1,1\n2,,2.5,x\n");
}

TEST_F(TableConversionTest, SparseRowsStaySparseAndBecomeDenseForCsv) {
  folder_.Write("in.svm", "1 1:0.5 4:2\n-1 2:3\n");
  Convert("in.svm", "a.parquet");
  Convert("a.parquet", "b.arrow");
  Convert("b.arrow", "c.svm.gz");
  Convert("c.svm.gz", "d.libsvm");
  EXPECT_EQ(Read("d.libsvm"), "1 1:0.5 4:2\n-1 2:3\n");
  Convert("b.arrow", "e.csv");
  EXPECT_EQ(Read("e.csv"), "label,f[0],f[1],f[2],f[3]\n1,0.5,0,0,2\n-1,0,3,0,0\n");
  Convert("e.csv", "f.svm");
  EXPECT_EQ(Read("f.svm"), "1 1:0.5 4:2\n-1 2:3\n");
}

TEST_F(TableConversionTest, HalfFloatsBecomeTheNumbersTheyAre) {
  WriteParquetTo(folder_.File("in.parquet"), *TableOf({{"h", Halves({1.5F, -0.25F})}}));
  Convert("in.parquet", "a.arrow");
  Convert("a.arrow", "out.csv");
  EXPECT_EQ(Read("out.csv"), "h\n1.5\n-0.25\n");
}

TEST_F(TableConversionTest, TimesAndTruthValuesBecomeText) {
  arrow::TimestampBuilder times(arrow::timestamp(arrow::TimeUnit::MICRO, "UTC"), arrow::default_memory_pool());
  arrow::Date32Builder days;
  arrow::BooleanBuilder truths;
  ASSERT_TRUE(times.Append(std::int64_t{1'709'208'000'000'000}).ok() && times.AppendNull().ok());
  ASSERT_TRUE(days.Append(19'782).ok() && days.Append(0).ok());
  ASSERT_TRUE(truths.Append(true).ok() && truths.Append(false).ok());
  WriteParquetTo(folder_.File("in.parquet"), *TableOf({{"at", times.Finish().ValueOrDie()},
                                                       {"day", days.Finish().ValueOrDie()},
                                                       {"late", truths.Finish().ValueOrDie()}}));
  Convert("in.parquet", "out.csv");
  EXPECT_EQ(Read("out.csv"), "at,day,late\n2024-02-29 12:00:00.000000Z,2024-02-29,true\n,1970-01-01,false\n");
}

TEST_F(TableConversionTest, ListsBecomeColumns) {
  WriteParquetTo(folder_.File("in.parquet"),
                 *TableOf({{"id", Integers({7, 8})}, {"e", FloatLists({{1, 2.5}, {3, 4}})}}));
  Convert("in.parquet", "out.csv");
  EXPECT_EQ(Read("out.csv"), "id,e[0],e[1]\n7,1,2.5\n8,3,4\n");
  WriteParquetTo(folder_.File("bad.parquet"), *TableOf({{"e", FloatLists({{1, 2}, {3}})}}));
  const auto failed = ConvertTable({folder_.File("bad.parquet")}, folder_.File("bad.csv"));
  EXPECT_THAT(std::string(failed.status().message()), HasSubstr("lists of 2 and of 1 values"));
  EXPECT_EQ(Read("bad.csv"), "");
}

TEST_F(TableConversionTest, BytesStayBytesAndTextInAnotherEncodingIsReportedWithItsLine) {
  arrow::BinaryBuilder bytes;
  ASSERT_TRUE(bytes.Append("\xff\xd8").ok() && bytes.Append("1").ok());
  WriteParquetTo(folder_.File("in.parquet"), *TableOf({{"image", bytes.Finish().ValueOrDie()}}));
  Convert("in.parquet", "out.arrow");
  Convert("out.arrow", "out.csv");
  EXPECT_EQ(Read("out.csv"), "image\n\xff\xd8\n1\n");
  folder_.Write("latin.csv", "id,name\n1,a\n\n2,caf\xe9\n");
  const auto failed = ConvertTable({folder_.File("latin.csv")}, folder_.File("x.parquet"));
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(failed.status().message()),
              HasSubstr("latin.csv, line 4, column 'name': the value is not UTF-8 text"));
}

TEST_F(TableConversionTest, WhatAFormatCannotHoldIsReportedWithTheFile) {
  arrow::StructBuilder structs(arrow::struct_({arrow::field("a", arrow::int64())}), arrow::default_memory_pool(),
                               {std::make_shared<arrow::Int64Builder>()});
  ASSERT_TRUE(structs.AppendEmptyValue().ok());
  WriteIpcFileTo(folder_.File("in.arrow"), *TableOf({{"s", structs.Finish().ValueOrDie()}}));
  for (const char* out : {"out.csv", "out.svm"}) {
    const auto failed = ConvertTable({folder_.File("in.arrow")}, folder_.File(out));
    EXPECT_EQ(failed.status().code(), absl::StatusCode::kDataLoss) << failed.status();
    EXPECT_THAT(std::string(failed.status().message()), HasSubstr("in.arrow"));
  }
  arrow::MonthDayNanoIntervalBuilder intervals;
  ASSERT_TRUE(intervals.AppendEmptyValue().ok());
  WriteIpcFileTo(folder_.File("times.arrow"), *TableOf({{"t", intervals.Finish().ValueOrDie()}}));
  const auto failed = ConvertTable({folder_.File("times.arrow")}, folder_.File("out.parquet"));
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kDataLoss) << failed.status();
  EXPECT_THAT(std::string(failed.status().message()), HasSubstr("times.arrow"));
}

TEST_F(TableConversionTest, StaysWithinItsMemory) {
  // One long value, which the file holds once, for each of many rows.
  arrow::StringBuilder texts;
  for (int row = 0; row < 2000; ++row) ASSERT_TRUE(texts.Append(std::string(100'000, 'x')).ok());
  WriteParquetTo(folder_.File("in.parquet"), *TableOf({{"text", texts.Finish().ValueOrDie()}}), 1 << 20,
                 arrow::Compression::ZSTD);
  const auto failed = ConvertTable({folder_.File("in.parquet")}, folder_.File("out.arrow"),
                                   {.max_memory_bytes = std::int64_t{16} << 20});
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kResourceExhausted) << failed.status();
  EXPECT_THAT(std::string(failed.status().message()), HasSubstr("in.parquet"));
}

TEST_F(TableConversionTest, EndingsThatMeanNothing) {
  folder_.Write("in.csv", "a\n1\n");
  EXPECT_EQ(ConvertTable({folder_.File("in.csv")}, folder_.File("out.doc")).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ConvertTable({folder_.File("in.csv")}, folder_.File("out.parquet.gz")).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace fulcrum::ingest
