// An import by several ranks, which are threads here, makes the pool that one process makes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/round/pool_source.h"
#include "storage/pool/mapped_pool.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/thread_communicator.h"

namespace fulcrum::pipeline {
namespace {

using ::testing::HasSubstr;

class ImportTogetherTest : public ::testing::Test {
 protected:
  /// Rows of a file: the id, and features that follow from it and `version`.
  std::string FileOf(const std::string& name, int first, int count, int version = 0) const {
    std::string text = "id,x,y,label\n";
    for (int row = first; row < first + count; ++row) {
      absl::StrAppend(&text, "r", row, ",", row + version, ",", row % 7, ",", row % 2 == 0 ? "a" : "b", "\n");
    }
    return folder_.Write(name, text);
  }
  ImportOptions Options(const std::string& out) const {
    ImportOptions options;
    options.sources = {folder_.File("rows-*.csv")};
    options.columns.id = "id";
    options.columns.label = "label";
    options.folder = folder_.File(out);
    return options;
  }
  /// The result of the root; the statuses of all ranks must be the same.
  absl::StatusOr<ImportResult> ImportOn(int ranks, const std::string& out, double max_rejected = 0.5) const {
    std::mutex mutex;
    absl::StatusOr<ImportResult> result = absl::InternalError("no rank");
    std::vector<absl::Status> statuses;
    testing::RunOnRanks(ranks, [&](const Communicator& peers) {
      ImportOptions options = Options(out);
      options.max_rejected_share = max_rejected;
      auto own = ImportPoolTogether(options, peers);
      const std::scoped_lock lock(mutex);
      statuses.push_back(own.status());
      if (peers.is_root()) result = std::move(own);
    });
    for (const absl::Status& status : statuses) EXPECT_EQ(status, result.status());
    return result;
  }
  void ExpectSamePool(const std::string& one, const std::string& other) const {
    const auto expected = storage::MappedPool::Open(folder_.File(one));
    const auto found = storage::MappedPool::Open(folder_.File(other));
    ASSERT_TRUE(expected.ok()) << expected.status();
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_TRUE(found->Verify().ok());
    const auto rows = expected->Load(true), same = found->Load(true);
    ASSERT_EQ(same->ids.size(), rows->ids.size());
    for (RowIndex row = 0; row < rows->ids.size(); ++row) {
      ASSERT_EQ(same->ids.TextOf(row), rows->ids.TextOf(row));
      ASSERT_EQ((*same->labels)[row], (*rows->labels)[row]);
      ASSERT_EQ(same->features.dense()(row, 0), rows->features.dense()(row, 0));
    }
    const auto statistics = expected->Statistics(), same_statistics = found->Statistics();
    EXPECT_EQ(same_statistics->rows(), statistics->rows());
    EXPECT_EQ(same_statistics->names(), statistics->names());
    for (std::size_t feature = 0; feature < 2; ++feature) {
      EXPECT_NEAR(same_statistics->means()[feature], statistics->means()[feature], 1e-9);
      EXPECT_NEAR(same_statistics->DeviationOf(feature), statistics->DeviationOf(feature), 1e-9);
    }
  }

  const fulcrum::testing::TemporaryDirectory folder_;
};

TEST_F(ImportTogetherTest, MakesThePoolOfOneProcess) {
  FileOf("rows-1.csv", 0, 400);
  FileOf("rows-2.csv", 400, 10);
  FileOf("rows-3.csv", 410, 300);
  FileOf("rows-4.csv", 710, 50);
  ASSERT_TRUE(ImportPool(Options("one")).ok());
  for (const int ranks : {1, 2, 3, 8}) {
    const std::string out = absl::StrCat("ranks-", ranks);
    const auto result = ImportOn(ranks, out);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->counts.added, 760);
    EXPECT_EQ(result->manifest.rows(), 760);
    ExpectSamePool("one", out);
    EXPECT_FALSE(std::filesystem::exists(folder_.File(out + ".importing")));
  }
  EXPECT_EQ(storage::MappedPool::Open(folder_.File("ranks-2"))->manifest().parts.size(), 2u);
  // One process can add to it.
  FileOf("rows-5.csv", 760, 40);
  const auto more = ImportPool(Options("ranks-2"));
  ASSERT_TRUE(more.ok()) << more.status();
  EXPECT_EQ(more->counts.added, 40);
  EXPECT_EQ(more->counts.existing, 760);
}

TEST_F(ImportTogetherTest, AnIdThatSeveralRanksHaveCountsOnce) {
  FileOf("rows-1.csv", 0, 100);
  FileOf("rows-2.csv", 90, 100);                 // ten rows again
  FileOf("rows-3.csv", 180, 20, /*version=*/1);  // ten ids with other features
  ASSERT_TRUE(ImportOn(1, "one").ok());
  const auto result = ImportOn(3, "three");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->counts.added, 200);
  EXPECT_EQ(result->counts.existing, 10);
  EXPECT_EQ(result->counts.rejected, 10);
  EXPECT_EQ(result->manifest.rejected, 10);
  ExpectSamePool("one", "three");

  const auto refused = ImportOn(3, "refused", /*max_rejected=*/0.01);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("10 of 220 rows cannot be taken"));
  EXPECT_FALSE(std::filesystem::exists(folder_.File("refused")));
  EXPECT_FALSE(std::filesystem::exists(folder_.File("refused.importing")));
}

TEST_F(ImportTogetherTest, ErrorsNameTheRankAndLeaveNothing) {
  FileOf("rows-1.csv", 0, 100);
  folder_.Write("rows-2.csv", "id,x,z,label\nq,1,2,a\n");
  const auto differs = ImportOn(2, "differs");
  EXPECT_EQ(differs.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(differs.status().message()), HasSubstr("rank 1"));
  EXPECT_FALSE(std::filesystem::exists(folder_.File("differs")));
  EXPECT_FALSE(std::filesystem::exists(folder_.File("differs.importing")));

  FileOf("rows-2.csv", 100, 100);
  std::filesystem::create_directories(folder_.File("left.importing/process-00007"));
  ASSERT_TRUE(ImportOn(2, "left").ok()) << "what a killed import left is replaced";
  const auto exists = ImportOn(2, "left");
  EXPECT_EQ(exists.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(exists.status().message()), HasSubstr("can only make a new pool"));
  EXPECT_EQ(storage::MappedPool::Open(folder_.File("left"))->rows(), 200);
}

}  // namespace
}  // namespace fulcrum::pipeline
