#include "stages/ingest/pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <utility>

#include "stages/core/number_text.h"
#include "stages/core/random.h"
#include "tests/support/data_sets.h"
#include "tests/support/temporary_directory.h"
#include "tests/unit/stages/ingest/input_files.h"

namespace fulcrum::ingest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PoolTest : public ::testing::Test {
 protected:
  absl::StatusOr<Pool> Load(const std::string& content, const PoolOptions& options = {}) {
    return LoadPool(folder_.Write("pool.csv", content), options);
  }
  /// The message of the error that the content must give.
  std::string ErrorOf(const std::string& content) {
    const auto pool = Load(content);
    EXPECT_EQ(pool.status().code(), absl::StatusCode::kDataLoss) << pool.status();
    return std::string(pool.status().message());
  }
  testing::TemporaryDirectory folder_;
};

TEST_F(PoolTest, KeepsIdsFeaturesAndLabelsInOrder) {
  const auto pool = Load("f0,id,label,f1\n1,b,yes,2\n-3,a,no,4e1\n", {.keep_labels = true});
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_THAT(pool->feature_names, ElementsAre("f0", "f1"));
  EXPECT_THAT(pool->features.dense().row(0), ElementsAre(1, 2));
  EXPECT_THAT(pool->features.dense().row(1), ElementsAre(-3, 40));
  EXPECT_EQ(pool->ids.TextOf(0), "b");
  EXPECT_EQ(pool->ids.Find("a"), 1u);
  EXPECT_THAT(*pool->labels, ElementsAre("yes", "no"));
}

TEST_F(PoolTest, WithoutIdsRowsAreKnownByTheirNumber) {
  const auto pool = Load("x\n5\n6\n7\n");
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_EQ(pool->ids.TextOf(2), "2");
  EXPECT_EQ(pool->ids.Find("2"), 2u);
  EXPECT_EQ(pool->ids.Find("3"), std::nullopt);
  EXPECT_EQ(pool->ids.Find("02"), std::nullopt);
}

TEST_F(PoolTest, TakesWindowsLineEndsByteOrderMarkQuotesAndBlankLines) {
  const auto pool = Load("\xEF\xBB\xBFid, f0\r\n\"a,1\",1\r\n\r\nb,\"2\"\r\n");
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_EQ(pool->ids.TextOf(0), "a,1");
  EXPECT_THAT(pool->feature_names, ElementsAre("f0"));
  EXPECT_EQ(pool->features.dense()(1, 0), 2);
}

TEST_F(PoolTest, ReadsManyBlocksAndCompressedFilesAlike) {
  Random random(3);
  std::string content = "id,f0,f1,f2\n";
  for (int row = 0; row < 60000; ++row) {
    content += "row" + std::to_string(row);
    for (int col = 0; col < 3; ++col) {
      content += ',';
      AppendNumber(random.Normal(), content);
    }
    content += '\n';
  }
  ASSERT_GT(content.size(), std::size_t{3} << 20);
  const auto plain = Load(content);
  ASSERT_TRUE(plain.ok()) << plain.status();
  ASSERT_EQ(plain->features.rows(), 60000u);
  Random again(3);
  for (std::size_t row = 0; row < 60000; ++row) {
    for (std::size_t col = 0; col < 3; ++col) ASSERT_EQ(plain->features.dense()(row, col), again.Normal()) << row;
  }
  EXPECT_EQ(plain->ids.Find("row59999"), 59999u);
  for (const auto& [name, type] :
       {std::pair{"p.csv.gz", arrow::Compression::GZIP}, std::pair{"p.csv.zst", arrow::Compression::ZSTD}}) {
    const auto pool = LoadPool(WriteCompressed(folder_, name, content, type));
    ASSERT_TRUE(pool.ok()) << pool.status();
    EXPECT_EQ(pool->features.rows(), 60000u);
    EXPECT_EQ(pool->features.dense()(59999, 2), plain->features.dense()(59999, 2));
  }
}

TEST_F(PoolTest, NamesFileLineColumnAndValueOfEveryKindOfBadCell) {
  const std::string error = ErrorOf("id,f0,f1\na,1,nan\n\nb,abc,2\nc,,3\nd,inf,-1e999\n");
  EXPECT_THAT(error, HasSubstr("pool.csv"));
  EXPECT_THAT(error, HasSubstr("line 2, column 'f1': 'nan' is not a number (NaN)"));
  EXPECT_THAT(error, HasSubstr("line 4, column 'f0': 'abc' is not a number"));
  EXPECT_THAT(error, HasSubstr("line 5, column 'f0': the value is missing"));
  EXPECT_THAT(error, HasSubstr("line 6, column 'f0': 'inf' is infinite"));
  EXPECT_THAT(error, HasSubstr("line 6, column 'f1': '-1e999' is infinite"));
  EXPECT_THAT(error, HasSubstr("what to do: every feature must be a finite number"));
}

TEST_F(PoolTest, ABadCellFarIntoTheFileHasTheRightLine) {
  std::string content = "f0\n";
  for (int row = 0; row < 400000; ++row) content += row == 399998 ? "oops\n" : "1.25\n";
  EXPECT_THAT(ErrorOf(content), HasSubstr("line 400000, column 'f0': 'oops' is not a number"));
}

TEST_F(PoolTest, RaggedRowsAreNamedTogether) {
  const std::string error = ErrorOf("id,f0,f1\na,1,2\nb,1\n\nc,1,2\nd,1,2,3\n");
  EXPECT_THAT(error, HasSubstr("line 3: 2 values instead of 3"));
  EXPECT_THAT(error, HasSubstr("line 6: 4 values instead of 3"));
}

TEST_F(PoolTest, ManyRaggedRowsStopTheReading) {
  std::string content = "f0,f1\n";
  for (int row = 0; row < 100; ++row) content += "1\n";
  const std::string error = ErrorOf(content);
  EXPECT_THAT(error, HasSubstr("line 2: 1 value instead of 2"));
  EXPECT_THAT(error, HasSubstr("line 6"));
  EXPECT_THAT(error, ::testing::Not(HasSubstr("line 7")));
}

TEST_F(PoolTest, ABadCellAfterARaggedRowHasTheRightLine) {
  EXPECT_THAT(ErrorOf("f0,f1\n1,2\n1\n1,2\n1,x\n"), HasSubstr("line 5, column 'f1': 'x' is not a number"));
}

TEST_F(PoolTest, AnIdTwiceNamesBothLines) {
  const std::string error = ErrorOf("id,f0\na,1\nb,2\n\na,3\n");
  EXPECT_THAT(error, HasSubstr("line 5, column 'id': 'a' is the id of line 2 too"));
}

TEST_F(PoolTest, AMissingIdIsAnError) {
  EXPECT_THAT(ErrorOf("id,f0\na,1\n,2\n"), HasSubstr("line 3, column 'id': the value is missing"));
  EXPECT_THAT(ErrorOf("id,f0\na,1\n\xff\xfe,2\n"), HasSubstr("line 3, column 'id'"));
}

TEST_F(PoolTest, FilesWithoutHeaderRowsOrFeatures) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("is empty"));
  EXPECT_THAT(ErrorOf("\n\n"), HasSubstr("is empty"));
  EXPECT_THAT(ErrorOf("id,f0\n"), HasSubstr("no rows"));
  EXPECT_THAT(ErrorOf("id,f0"), HasSubstr("no rows"));
  EXPECT_THAT(ErrorOf("id,label\na,1\n"), HasSubstr("no feature columns"));
  EXPECT_THAT(ErrorOf("1,0.5,0.25\n2,1,2\n"), HasSubstr("no header"));
}

TEST_F(PoolTest, HeadersThatWouldMislead) {
  EXPECT_THAT(ErrorOf(",f0\n0,1\n"), HasSubstr("column 1 has no name"));
  EXPECT_THAT(ErrorOf("f0,f0\n0,1\n"), HasSubstr("'f0' comes twice"));
  EXPECT_THAT(ErrorOf("ID,f0\n0,1\n"), HasSubstr("name it 'id' if it is the id"));
  EXPECT_THAT(ErrorOf("id,Label,f0\n0,1,1\n"), HasSubstr("name it 'label'"));
}

TEST_F(PoolTest, FilesThatAreNotThereOrNotReadable) {
  EXPECT_EQ(LoadPool(folder_.File("absent.csv")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(LoadPool(folder_.path() + "/.csv").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(LoadPool(folder_.Write("a.txt", "x\n1\n")).status().message()), HasSubstr("known are .csv"));
  const auto broken = LoadPool(folder_.Write("broken.csv.gz", "this is not gzip"));
  EXPECT_EQ(broken.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(broken.status().message()), HasSubstr("broken.csv.gz"));
}

TEST_F(PoolTest, ATruncatedGzipFileIsAnError) {
  std::string content = "f0\n";
  for (int row = 0; row < 50000; ++row) content += std::to_string(row * 7919 % 10007) + "\n";
  const std::string path = WriteCompressed(folder_, "cut.csv.gz", content, arrow::Compression::GZIP);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  EXPECT_EQ(LoadPool(path).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(PoolTest, AgreesWithAnIndependentReaderOnRealData) {
  FULCRUM_SKIP_WITHOUT_DATA("UvsV.csv.gz");
  const auto expected = testing::LoadDataSet("UvsV.csv.gz");
  const auto pool = LoadPool(*testing::FindDataFile("UvsV.csv.gz"), {.keep_labels = true});
  ASSERT_TRUE(pool.ok()) << pool.status();
  ASSERT_EQ(pool->features.rows(), expected->features.rows());
  ASSERT_EQ(pool->features.cols(), expected->features.cols());
  for (std::size_t row = 0; row < pool->features.rows(); ++row) {
    EXPECT_THAT(pool->features.dense().row(row), ::testing::ElementsAreArray(expected->features.row(row)));
    EXPECT_EQ((*pool->labels)[row], std::to_string(expected->labels[row]));
  }
}

}  // namespace
}  // namespace fulcrum::ingest
