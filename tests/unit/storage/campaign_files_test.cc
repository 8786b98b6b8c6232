#include "storage/campaign_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arrow/scalar.h"
#include "arrow/table.h"
#include "stages/core/files.h"
#include "stages/ingest/formats/table_writer.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CampaignFilesTest : public ::testing::Test {
 protected:
  CampaignFilesTest() : folder_(directory_.File("campaign")) { EXPECT_TRUE(folder_.Create().ok()); }

  static StoredModel Recorded(const RecordModelRequest& request) {
    return {
        .round = request.round, .trained_on = request.trained_on, .file = request.file, .checksum = request.checksum};
  }

  const testing::TemporaryDirectory directory_;
  const CampaignFolder folder_;
};

TEST_F(CampaignFilesTest, AModelComesBackAsItWasOrNotAtAll) {
  const std::string bytes("with \0 inside", 13);
  const auto request = WriteModelFile(folder_, 3, 41, bytes);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->round, 3);
  EXPECT_EQ(request->trained_on, 41);
  EXPECT_EQ(*ReadModelFile(folder_, Recorded(*request)), bytes);
  directory_.Write("campaign/" + request->file, "something else");
  const auto damaged = ReadModelFile(folder_, Recorded(*request));
  EXPECT_EQ(damaged.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(damaged.status().message()), HasSubstr(request->file));
  EXPECT_EQ(ReadModelFile(folder_, {.file = "models/absent"}).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CampaignFilesTest, ARoundsScoresAndBatchAreParquet) {
  const auto names =
      WriteRoundFiles(folder_, 7, {{"a", "b"}, {"x", "y"}, {true, false}, {0.5, 0.25}}, {{"b"}, {"y"}, {0.25}, {1.5}});
  ASSERT_TRUE(names.ok()) << names.status();
  ASSERT_THAT(*names, ElementsAre("rounds/000007-scores.parquet", "rounds/000007-batch.parquet"));
  const auto scores = ingest::ReadParquetFile(folder_.File((*names)[0]));
  ASSERT_TRUE(scores.ok()) << scores.status();
  EXPECT_THAT((*scores)->ColumnNames(), ElementsAre("id", "class", "labeled", "leverage"));
  EXPECT_EQ((*scores)->num_rows(), 2);
  EXPECT_EQ((*(*scores)->GetColumnByName("id")->GetScalar(1))->ToString(), "b");
  EXPECT_EQ((*(*scores)->GetColumnByName("labeled")->GetScalar(0))->ToString(), "true");
  const auto batch = ingest::ReadParquetFile(folder_.File((*names)[1]));
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_THAT((*batch)->ColumnNames(), ElementsAre("rank", "id", "class", "leverage", "gain"));
  EXPECT_EQ((*(*batch)->GetColumnByName("gain")->GetScalar(0))->ToString(), "1.5");
}

TEST_F(CampaignFilesTest, ColumnsOfDifferentLengthAreRefused) {
  EXPECT_FALSE(WriteRoundFiles(folder_, 1, {{"a", "b"}, {"x"}, {true}, {0.5}}, {}).ok());
}

TEST(ChecksumTest, IsFnv1aOfTheBytesHoweverTheyAreCut) {
  Checksum whole, parts, other;
  whole.Add("foobar");
  parts.Add("foo");
  parts.Add("bar");
  other.Add("foobaz");
  EXPECT_EQ(whole.ToText(), "fnv1a:85944171f73967e8");  // the published test vector
  EXPECT_EQ(parts.value(), whole.value());
  EXPECT_NE(other.value(), whole.value());
  EXPECT_EQ(ChecksumOfFile("/no/such/file").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace fulcrum::storage
