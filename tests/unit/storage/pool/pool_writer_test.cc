#include "storage/pool/pool_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "absl/strings/str_cat.h"
#include "arrow/array.h"
#include "arrow/record_batch.h"
#include "arrow/table.h"
#include "stages/ingest/formats/table_writer.h"
#include "storage/pool/mapped_pool.h"
#include "tests/support/temporary_directory.h"
#include "tests/unit/stages/ingest/arrow_tables.h"

namespace fulcrum::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::shared_ptr<arrow::RecordBatch> BatchOf(const std::vector<ingest::NamedArray>& columns) {
  return ingest::TableOf(columns)->CombineChunksToBatch().ValueOrDie();
}

class PoolWriterTest : public ::testing::Test {
 protected:
  std::string Pool() const { return folder_.File("pool"); }

  /// Writes the batches as one import.
  absl::Status Write(const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches, double max_rejected = 1) {
    auto roles = ingest::AssignRoles(*batches[0]->schema(), columns_, "test");
    if (!roles.ok()) return roles.status();
    ingest::SettleWidths(*batches[0], *roles);
    auto writer = PoolWriter::Open(Pool(), ShapeFor(*roles), roles->FeatureNames());
    if (!writer.ok()) return writer.status();
    for (const auto& batch : batches) {
      auto built = BuildBlock(*batch, *roles, {});
      if (!built.ok()) return built.status();
      const absl::Status status =
          (*writer)->Append(*std::move(built), [](std::uint64_t row) { return absl::StrCat("test, row ", row); });
      if (!status.ok()) return status;
    }
    const absl::Status status = (*writer)->Commit(max_rejected);
    counts_ = (*writer)->counts();
    return status;
  }

  static std::shared_ptr<arrow::RecordBatch> Rows(const std::vector<std::string>& ids, const std::vector<float>& x) {
    return BatchOf({{"id", ingest::Texts(ids)}, {"x", ingest::Floats(x)}, {"y", ingest::Floats(x)}});
  }

  ingest::Pool Load() const {
    const auto pool = MappedPool::Open(Pool());
    EXPECT_TRUE(pool.ok()) << pool.status();
    auto loaded = pool->Load(/*keep_labels=*/true);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return *std::move(loaded);
  }

  std::vector<std::string> Reasons(const std::string& file) const {
    const auto table = ingest::ReadParquetFile(Pool() + "/" + file).value();
    std::vector<std::string> reasons;
    const auto batch = table->CombineChunksToBatch().ValueOrDie();
    for (std::int64_t row = 0; row < batch->num_rows(); ++row) {
      const auto text = [&](int column) {
        return static_cast<const arrow::StringArray&>(*batch->column(column)).GetString(row);
      };
      reasons.push_back(absl::StrCat(text(0), "|", text(1), "|", text(2), "|", text(3)));
    }
    return reasons;
  }

  std::vector<std::string> FilesBeside() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  testing::TemporaryDirectory folder_;
  ingest::ColumnOptions columns_;
  PoolWriter::Counts counts_;
};

TEST_F(PoolWriterTest, RowsComeBackWithEverything) {
  columns_ = {.cost = "price", .payload = "text"};
  ASSERT_TRUE(Write({BatchOf({{"id", ingest::Texts({"a", "b"})},
                              {"label", ingest::Texts({"yes", ""})},
                              {"price", ingest::Doubles({1.5, 2})},
                              {"text", ingest::Texts({"  hello ", "world"})},
                              {"e", ingest::FloatLists({{1, 2}, {3, 4}})}})})
                  .ok());
  const ingest::Pool pool = Load();
  EXPECT_THAT(pool.feature_names, ElementsAre("e[0]", "e[1]"));
  EXPECT_THAT(pool.features.dense().row(1), ElementsAre(3, 4));
  EXPECT_THAT(*pool.labels, ElementsAre("yes", ""));
  EXPECT_EQ(pool.ids.Find("b"), 1u);
  const auto mapped = MappedPool::Open(Pool());
  const auto block = mapped->Block(0).value();
  const PoolColumns columns = ColumnsOf(mapped->shape());
  EXPECT_EQ(static_cast<const arrow::BinaryArray&>(*block->column(columns.payload)).GetString(0), "  hello ");
  EXPECT_EQ(static_cast<const arrow::DoubleArray&>(*block->column(columns.cost)).Value(1), 2);
  EXPECT_EQ(mapped->Statistics()->means()[1], 3);
  EXPECT_THAT(FilesBeside(), ElementsAre("pool"));
}

TEST_F(PoolWriterTest, ANegativeCostIsNoCost) {
  columns_ = {.cost = "price"};
  const absl::Status status = Write({BatchOf({{"id", ingest::Texts({"a", "b"})},
                                              {"price", ingest::Doubles({0, -2})},
                                              {"e", ingest::FloatLists({{1, 2}, {3, 4}})}})},
                                    /*max_rejected=*/0);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("row 1, column 'price': the cost -2 is negative"));
}

TEST_F(PoolWriterTest, SparseRowsStaySparse) {
  ASSERT_TRUE(
      Write({BatchOf({{"indices", ingest::IndexLists({{5, 1}, {}})}, {"values", ingest::FloatLists({{2, 3}, {}})}})})
          .ok());
  const ingest::Pool pool = Load();
  ASSERT_TRUE(pool.features.is_sparse());
  EXPECT_EQ(pool.features.cols(), 6u);
  EXPECT_THAT(pool.features.sparse().columns, ElementsAre(1, 5));
  EXPECT_THAT(pool.features.sparse().values, ElementsAre(3, 2));
}

TEST_F(PoolWriterTest, BadRowsAreSetAsideWithTheirReasons) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const auto batch = BatchOf({{"id", ingest::Texts({"a", "b", "c", "", "a", "a"})},
                              {"x", ingest::Doubles({1, nan, 1e300, 4, 1, 9})},
                              {"y", ingest::Floats({1, inf, 3, 4, 1, 9})}});
  ASSERT_TRUE(Write({batch}).ok());
  EXPECT_EQ(counts_.read, 6);
  EXPECT_EQ(counts_.added, 1);
  EXPECT_EQ(counts_.existing, 1);
  EXPECT_THAT(
      Reasons("rejected.parquet"),
      ElementsAre("test, row 1|b|x|the value is NaN", "test, row 2|c|x|the value 1e+300 does not fit a 32-bit float",
                  "test, row 3||id|the id is missing or not UTF-8 text",
                  "test, row 5|a|id|a row with this id and other content is in the pool already"));
  EXPECT_EQ(Load().ids.size(), 1u);
  EXPECT_TRUE(MappedPool::Open(Pool())->Verify().ok());
}

TEST_F(PoolWriterTest, TooManyBadRowsLeaveThePoolAsItWas) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const absl::Status status = Write({Rows({"a", "b", "c"}, {1, nan, nan})}, 0.5);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("2 of 3 rows cannot be taken"));
  EXPECT_THAT(FilesBeside(), ElementsAre("pool.rejected.parquet"));
  ASSERT_TRUE(Write({Rows({"a", "b", "c"}, {1, 2, 3})}, 0).ok());
  EXPECT_FALSE(Write({Rows({"d", "e"}, {nan, 5})}, 0.1).ok());
  EXPECT_EQ(Load().ids.size(), 3u);
}

TEST_F(PoolWriterTest, ImportingAgainAddsWhatIsNew) {
  ASSERT_TRUE(Write({Rows({"a", "b"}, {1, 2})}).ok());
  ASSERT_TRUE(Write({Rows({"b", "c"}, {2, 3}), Rows({"c", "a", "d"}, {3, 7, 4})}).ok());
  EXPECT_EQ(counts_.added, 2);
  EXPECT_EQ(counts_.existing, 2);
  EXPECT_EQ(counts_.rejected, 1);
  const ingest::Pool pool = Load();
  ASSERT_EQ(pool.ids.size(), 4u);
  EXPECT_EQ(pool.ids.TextOf(3), "d");
  EXPECT_THAT(pool.features.dense().row(3), ElementsAre(4, 4));
  EXPECT_EQ(MappedPool::Open(Pool())->Statistics()->means()[0], 2.5);
  EXPECT_THAT(Reasons("rejected-00001.parquet"), ElementsAre(HasSubstr("other content")));
  ASSERT_TRUE(Write({Rows({"b", "c"}, {2, 3})}).ok());
  EXPECT_EQ(counts_.added, 0);
  EXPECT_EQ(MappedPool::Open(Pool())->manifest().parts.size(), 2u);
}

TEST_F(PoolWriterTest, RowsThatDoNotFitAreRefused) {
  ASSERT_TRUE(Write({Rows({"a"}, {1})}).ok());
  EXPECT_EQ(Write({BatchOf({{"id", ingest::Texts({"b"})}, {"x", ingest::Floats({1})}})}).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(
      Write({BatchOf({{"id", ingest::Texts({"b"})}, {"y", ingest::Floats({1})}, {"x", ingest::Floats({1})}})}).code(),
      absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Write({BatchOf({{"x", ingest::Floats({1})}, {"y", ingest::Floats({1})}})}).code(),
            absl::StatusCode::kFailedPrecondition);
  std::filesystem::create_directories(folder_.File("pool2"));
  std::ofstream(folder_.File("pool2/mine.txt")) << "keep";
  std::filesystem::rename(Pool(), folder_.File("old"));
  std::filesystem::rename(folder_.File("pool2"), Pool());
  EXPECT_EQ(Write({Rows({"a"}, {1})}).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(std::filesystem::exists(Pool() + "/mine.txt"));
}

TEST_F(PoolWriterTest, AnImportThatDiedIsClearedAway) {
  std::filesystem::create_directories(Pool() + ".importing");
  std::ofstream(Pool() + ".importing/part-00000.arrow") << "half a file";
  ASSERT_TRUE(Write({Rows({"a"}, {1})}).ok());
  EXPECT_THAT(FilesBeside(), ElementsAre("pool"));
  std::ofstream(Pool() + "/part-00001.arrow") << "half a file";
  std::ofstream(Pool() + "/manifest.tmp-AbCdEf") << "half a manifest";
  EXPECT_EQ(Load().ids.size(), 1u);
  ASSERT_TRUE(Write({Rows({"b"}, {1})}).ok());
  EXPECT_EQ(Load().ids.size(), 2u);
  EXPECT_FALSE(std::filesystem::exists(Pool() + "/manifest.tmp-AbCdEf"));
}

TEST_F(PoolWriterTest, TwoWritersDoNotMeet) {
  const auto lock = FileLock::Take(folder_.path());
  ASSERT_TRUE(lock.ok());
  EXPECT_EQ(FileLock::Take(folder_.path()).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(PoolWriterTest, AFlippedByteOnTheDiskIsNoticed) {
  ASSERT_TRUE(Write({Rows({"a", "b", "c"}, {1.25, 2, 3})}).ok());
  const std::string path = Pool() + "/part-00000.arrow";
  std::string bytes;
  {
    std::ifstream file(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  const float value = 1.25;
  const std::size_t place = bytes.find(std::string(reinterpret_cast<const char*>(&value), sizeof(value)));
  ASSERT_NE(place, std::string::npos);
  bytes[place] = static_cast<char>(bytes[place] ^ 1);
  std::ofstream(path, std::ios::binary) << bytes;
  const auto pool = MappedPool::Open(Pool());
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_EQ(pool->Verify().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(pool->Load(false).status().message()), HasSubstr("block 0: its checksum does not fit"));
  std::filesystem::resize_file(path, bytes.size() - 8);
  EXPECT_EQ(MappedPool::Open(Pool()).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace fulcrum::storage
