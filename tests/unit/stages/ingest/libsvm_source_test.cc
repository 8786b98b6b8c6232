#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "stages/core/random.h"
#include "stages/ingest/formats/table_source.h"
#include "stages/ingest/pool.h"
#include "tests/support/data_sets.h"
#include "tests/support/temporary_directory.h"
#include "tests/unit/stages/ingest/input_files.h"

namespace fulcrum::ingest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LibsvmTest : public ::testing::Test {
 protected:
  absl::StatusOr<Pool> Load(const std::string& content) {
    return LoadPool(folder_.Write("pool.svm", content), {.keep_labels = true});
  }
  std::string ErrorOf(const std::string& content) {
    const auto pool = Load(content);
    EXPECT_EQ(pool.status().code(), absl::StatusCode::kDataLoss) << pool.status();
    return std::string(pool.status().message());
  }
  testing::TemporaryDirectory folder_;
};

TEST_F(LibsvmTest, ReadsLabelsIndicesAndValues) {
  const auto pool = Load("+1 1:0.5 3:-2e1 # a comment\r\n\n# only a comment\n-1 qid:7 2:1\nspam\n");
  ASSERT_TRUE(pool.ok()) << pool.status();
  ASSERT_TRUE(pool->features.is_sparse());
  const SparseMatrix& features = pool->features.sparse();
  EXPECT_EQ(features.cols, 3u);
  EXPECT_THAT(features.offsets, ElementsAre(0, 2, 3, 3));
  EXPECT_THAT(features.columns, ElementsAre(0, 2, 1));
  EXPECT_THAT(features.values, ElementsAre(0.5, -20, 1));
  EXPECT_THAT(*pool->labels, ElementsAre("1", "-1", "spam"));
  EXPECT_EQ(pool->FeatureName(2), "3");
  EXPECT_TRUE(pool->ids.are_row_numbers());
}

TEST_F(LibsvmTest, EveryMistakeHasItsLineAndColumn) {
  const std::string error = ErrorOf("1 1:1\n\n1 2:1 1:1\n1 0:1\n1 5:x\n1 7\n1 99999999999:1\n");
  EXPECT_THAT(error, HasSubstr("pool.svm"));
  EXPECT_THAT(error, HasSubstr("line 3, column 7: the index 1 comes after 2; indices must ascend"));
  EXPECT_THAT(error, HasSubstr("line 4, column 3: the index 0 is below 1"));
  EXPECT_THAT(error, HasSubstr("line 5, column 3: the value 'x' of feature 5 is not a number"));
  EXPECT_THAT(error, HasSubstr("line 6, column 3: '7' is not index:value"));
  EXPECT_THAT(error, HasSubstr("line 7, column 3: the index '99999999999' is too large"));
  EXPECT_THAT(ErrorOf("1:2 3:4\n"), HasSubstr("line 1, column 1: the line begins with '1:2', not with a label"));
  EXPECT_THAT(ErrorOf("1 20000000:1\n"), HasSubstr("above 16777216"));
}

TEST_F(LibsvmTest, ValuesThatAreNotFiniteHaveTheirLine) {
  EXPECT_THAT(ErrorOf("# header\n1 1:1\n\n1 2:nan\n"), HasSubstr("line 4, column 'values': at 0: the value is NaN"));
}

TEST_F(LibsvmTest, FilesWithoutRowsOrFeatures) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("no rows"));
  EXPECT_THAT(ErrorOf("# nothing\n"), HasSubstr("no rows"));
  EXPECT_THAT(ErrorOf("1\n-1\n"), HasSubstr("no row has a feature"));
}

// Larger than the blocks that are read at a time, so that lines fall across their ends.
TEST_F(LibsvmTest, ManyBlocksAreReadAsOne) {
  Random random(7);
  std::string content;
  SparseMatrix expected;
  while (content.size() < std::size_t{10} << 20) {
    content += "1";
    for (int index = 1; index < 100; ++index) {
      if (random.Below(3) != 0) continue;
      const double value = static_cast<double>(random.Below(1000)) / 8;
      absl::StrAppend(&content, " ", index, ":", value);
      expected.columns.push_back(index - 1);
      expected.values.push_back(value);
    }
    content += "\n";
    expected.offsets.push_back(expected.values.size());
  }
  const auto pool = Load(content);
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_EQ(pool->features.sparse().offsets, expected.offsets);
  EXPECT_EQ(pool->features.sparse().columns, expected.columns);
  EXPECT_EQ(pool->features.sparse().values, expected.values);
  const auto zipped = LoadPool(WriteCompressed(folder_, "p.libsvm.zst", content, arrow::Compression::ZSTD));
  ASSERT_TRUE(zipped.ok()) << zipped.status();
  EXPECT_EQ(zipped->features.sparse().values, expected.values);
}

TEST_F(LibsvmTest, ReadsTheNewsgroups) {
  FULCRUM_SKIP_WITHOUT_DATA("autos.svm.gz");
  const auto pool = LoadPool(*testing::FindDataFile("autos.svm.gz"), {.keep_labels = true});
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_EQ(pool->features.rows(), 1986u);
  EXPECT_EQ(pool->features.cols(), 11009u);
  EXPECT_EQ(std::count(pool->labels->begin(), pool->labels->end(), "1"), 990);
}

}  // namespace
}  // namespace fulcrum::ingest
