#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "arrow/record_batch.h"
#include "arrow/table.h"
#include "storage/pool/mapped_pool.h"
#include "storage/pool/pool_manifest.h"
#include "storage/pool/pool_writer.h"
#include "tests/support/temporary_directory.h"
#include "tests/unit/stages/ingest/arrow_tables.h"

namespace fulcrum::storage {
namespace {

class PoolCopyTest : public ::testing::Test {
 protected:
  std::string Pool() const { return folder_.File("pool"); }
  std::string Copy() const { return folder_.File("copy"); }

  void Import(const std::vector<std::string>& ids, const std::vector<float>& x) {
    const auto batch =
        ingest::TableOf({{"id", ingest::Texts(ids)}, {"x", ingest::Floats(x)}})->CombineChunksToBatch().ValueOrDie();
    const auto roles = ingest::AssignRoles(*batch->schema(), {}, "test").value();
    const auto writer = PoolWriter::Open(Pool(), ShapeFor(roles), roles.FeatureNames()).value();
    ASSERT_TRUE(writer->Append(BuildBlock(*batch, roles, {}).value(), [](std::uint64_t) { return "test"; }).ok());
    ASSERT_TRUE(writer->Commit(1).ok());
  }

  const testing::TemporaryDirectory folder_;
};

TEST_F(PoolCopyTest, HasTheRowsThatThePoolHadThen) {
  Import({"a", "b", ""}, {1, 2, 3});
  ASSERT_TRUE(CopyPool(Pool(), Copy()).ok());
  Import({"c"}, {4});
  EXPECT_EQ(MappedPool::Open(Pool())->rows(), 3);
  std::filesystem::remove_all(Pool());
  const auto copy = MappedPool::Open(Copy());
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_TRUE(copy->Verify().ok());
  EXPECT_EQ(copy->rows(), 2);
  EXPECT_EQ(copy->manifest().rejected, 1);
  EXPECT_TRUE(std::filesystem::exists(folder_.File("copy/rejected.parquet")));
  EXPECT_EQ(copy->Load(false)->features.dense()(1, 0), 2);
}

TEST_F(PoolCopyTest, SharesTheFilesOnOneFileSystem) {
  Import({"a"}, {1});
  ASSERT_TRUE(CopyPool(Pool(), Copy()).ok());
  EXPECT_EQ(std::filesystem::hard_link_count(folder_.File("copy/part-00000.arrow")), 2u);
}

TEST_F(PoolCopyTest, LeavesNothingIfAFileIsMissing) {
  Import({"a"}, {1});
  std::filesystem::remove(folder_.File("pool/part-00000.arrow"));
  const absl::Status status = CopyPool(Pool(), Copy());
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("part-00000.arrow"));
  EXPECT_FALSE(std::filesystem::exists(Copy()));
  EXPECT_FALSE(std::filesystem::exists(Copy() + ".importing"));
}

}  // namespace
}  // namespace fulcrum::storage
