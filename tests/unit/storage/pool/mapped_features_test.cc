#include <gtest/gtest.h>

#include <fstream>
#include <numeric>

#include "arrow/record_batch.h"
#include "arrow/table.h"
#include "stages/core/random.h"
#include "storage/pool/mapped_pool.h"
#include "storage/pool/pool_writer.h"
#include "tests/support/temporary_directory.h"
#include "tests/unit/stages/ingest/arrow_tables.h"

namespace fulcrum::storage {
namespace {

constexpr std::size_t kDims = 5;
constexpr std::size_t kRowsOfBlocks[] = {300, 1, 700};

class MappedFeaturesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Random random(1);
    std::unique_ptr<PoolWriter> writer;
    for (const std::size_t rows : kRowsOfBlocks) {
      std::vector<std::vector<float>> lists(rows, std::vector<float>(kDims));
      for (auto& row : lists) {
        for (float& value : row) value = static_cast<float>(3 + 2 * random.Normal());
      }
      const auto batch = ingest::TableOf({{"e", ingest::FloatLists(lists)}})->CombineChunksToBatch().ValueOrDie();
      auto roles = ingest::AssignRoles(*batch->schema(), {}, "test").value();
      ingest::SettleWidths(*batch, roles);
      if (!writer) writer = PoolWriter::Open(folder_.File("pool"), ShapeFor(roles), roles.FeatureNames()).value();
      ASSERT_TRUE(writer->Append(BuildBlock(*batch, roles, {}).value(), [](std::uint64_t) { return "test"; }).ok());
    }
    ASSERT_TRUE(writer->Commit(0).ok());
  }

  /// The same pool loaded and normalised in memory: the reference.
  Matrix<double> Loaded(const std::vector<ingest::NormalizeStep>& steps) const {
    ingest::Pool pool = MappedPool::Open(folder_.File("pool"))->Load(false).value();
    EXPECT_TRUE(ingest::Normalizer::FitInPlace(steps, pool.features).ok());
    return std::move(pool.features.dense());
  }
  std::unique_ptr<MappedFeatures> Mapped(const std::vector<ingest::NormalizeStep>& steps,
                                         std::size_t keep_bytes = 0) const {
    const auto pool = MappedPool::Open(folder_.File("pool")).value();
    const FeatureStatistics statistics = pool.Statistics().value();
    std::vector<double> deviations;
    for (std::size_t i = 0; i < kDims; ++i) deviations.push_back(statistics.DeviationOf(i));
    auto normalizer = ingest::Normalizer::FromStatistics(steps, statistics.means(), deviations);
    EXPECT_TRUE(normalizer.ok()) << normalizer.status();
    return MappedFeatures::Open(pool, *std::move(normalizer), keep_bytes).value();
  }

  testing::TemporaryDirectory folder_;
};

using Steps = std::vector<ingest::NormalizeStep>;
const Steps kBoth = {ingest::NormalizeStep::kZscore, ingest::NormalizeStep::kUnit};

TEST_F(MappedFeaturesTest, ReadsWhatIsLoadedAndNormalisedInMemory) {
  for (const Steps& steps : {Steps{}, Steps{ingest::NormalizeStep::kUnit}, kBoth}) {
    const kernel::DenseFeatures loaded(Loaded(steps));
    const auto mapped = Mapped(steps);
    ASSERT_EQ(mapped->rows(), 1001u);
    for (std::size_t row = 0; row < mapped->rows(); ++row) {
      ASSERT_NEAR(mapped->squared_norms()[row], loaded.squared_norms()[row], 1e-10);
    }
    // Across the blocks' borders, and not in order.
    const RowList a = {299, 300, 301, 0, 1000}, b = {7, 300, 999};
    Matrix<double> expected(a.size(), b.size()), dots(a.size(), b.size());
    MultiplyRows(loaded.Pack(a), 0, loaded.Pack(b), 0, expected.view());
    MultiplyRows(mapped->Pack(a), 0, mapped->Pack(b), 0, dots.view());
    Matrix<float> copied(a.size(), kDims);
    mapped->CopyRows(a, copied.view());
    const Matrix<double> packed = mapped->Pack(a).ToDense();
    for (std::size_t i = 0; i < a.size(); ++i) {
      for (std::size_t j = 0; j < b.size(); ++j) EXPECT_NEAR(dots(i, j), expected(i, j), 1e-10);
      for (std::size_t j = 0; j < kDims; ++j) {
        EXPECT_NEAR(copied(i, j), loaded.values()(a[i], j), 1e-6);
        EXPECT_NEAR(packed(i, j), loaded.values()(a[i], j), 1e-10);
      }
    }
  }
}

TEST_F(MappedFeaturesTest, StaysReadableAfterItsPagesWereGivenBack) {
  const auto mapped = Mapped(kBoth);
  RowList all(mapped->rows());
  std::iota(all.begin(), all.end(), RowIndex{0});
  Matrix<float> before(all.size(), kDims), after(all.size(), kDims);
  mapped->CopyRows(all, before.view());
  // Far more than what is touched before pages are given back.
  for (int i = 0; i < 300; ++i) mapped->CopyRows(all, after.view());
  for (std::size_t row = 0; row < all.size(); ++row) {
    for (std::size_t j = 0; j < kDims; ++j) ASSERT_EQ(before(row, j), after(row, j));
  }
}

TEST_F(MappedFeaturesTest, CountsAsMemoryIfTheWholeMappingMayStay) {
  constexpr std::size_t kMappingBytes = 1001 * kDims * sizeof(float);
  EXPECT_EQ(Mapped(kBoth)->bytes(), 0u);
  EXPECT_EQ(Mapped(kBoth, kMappingBytes - 1)->bytes(), 0u) << "all or nothing";
  EXPECT_EQ(Mapped(kBoth, kMappingBytes)->bytes(), kMappingBytes);
}

TEST_F(MappedFeaturesTest, AZscoreThatIsNotFirstNeedsTheRows) {
  const auto normalizer =
      ingest::Normalizer::FromStatistics({ingest::NormalizeStep::kUnit, ingest::NormalizeStep::kZscore},
                                         std::vector<double>(kDims), std::vector<double>(kDims, 1));
  EXPECT_EQ(normalizer.status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace fulcrum::storage
