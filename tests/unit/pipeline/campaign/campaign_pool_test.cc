// A campaign's pool in memory and on the disk: the same rows, also when it grows.
#include "pipeline/campaign/pool/campaign_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "absl/strings/str_cat.h"
#include "pipeline/campaign/pool/pool_growth.h"
#include "pipeline/round/pool_source.h"
#include "stages/core/random.h"
#include "storage/pool/mapped_pool.h"
#include "storage/pool/pool_block.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::size_t kMuchMemory = std::size_t{1} << 40;

/// Rows `first` to `last` of a table with everything that a pool can have.
std::string RowsText(int first, int last) {
  std::string text = "id,price,text,f0,f1,f2\n";
  for (int row = first; row < last; ++row) {
    Random random = Random::Fork(1, static_cast<std::uint64_t>(row));
    absl::StrAppend(&text, "x", row, ",", 0.5 * row, ",see ", row);
    for (int i = 0; i < 3; ++i) absl::StrAppend(&text, ",", random.Normal());
    text += "\n";
  }
  return text;
}

class CampaignPoolTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(directory_.File("sources"));
    directory_.Write("sources/first.csv", RowsText(0, 40));
    plan_.sources = {"first.csv"};
    plan_.cost_column = "price";
    plan_.payload_column = "text";
    plan_.normalize = ingest::ParseNormalization("zscore,unit").value();
    ASSERT_TRUE(folder_.Create().ok());
    ASSERT_TRUE(ImportOwnPool(plan_, {.root = directory_.File("sources")}, folder_).ok());
  }

  std::string Imported(const std::string& name, const std::string& text) {
    ImportOptions options;
    options.sources = {directory_.Write(name + ".csv", text)};
    options.folder = directory_.File(name);
    options.columns = ColumnsOf(plan_);
    EXPECT_TRUE(ImportPool(options).ok());
    return options.folder;
  }

  const testing::TemporaryDirectory directory_;
  const storage::CampaignFolder folder_{directory_.File("campaign")};
  CampaignPlan plan_;
};

TEST_F(CampaignPoolTest, IsTheSameOnTheDiskAndInMemoryAlsoWhenItGrows) {
  const std::string more = Imported("more", RowsText(40, 55)), last = Imported("last", RowsText(55, 60));
  std::vector<std::shared_ptr<const CampaignPool>> pools;
  for (const std::size_t memory : {kMuchMemory, std::size_t{0}}) {
    const auto first = CampaignPool::Load(plan_, folder_, memory);
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_EQ((*first)->bytes() == 0, memory == 0) << "rows on the disk take no memory";
    const auto second = (*first)->With(more);
    ASSERT_TRUE(second.ok()) << second.status();
    pools.push_back(*(*second)->With(last));
    EXPECT_EQ((*first)->rows(), 40u) << "who holds the old one keeps it";
  }
  for (const auto& pool : pools) ASSERT_EQ(pool->rows(), 60u);
  for (RowIndex row = 0; row < 60; ++row) {
    const std::string id = absl::StrCat("x", row);
    std::vector<double> loaded(3), mapped(3);
    pools[0]->CopyRow(row, loaded);
    pools[1]->CopyRow(row, mapped);
    for (int i = 0; i < 3; ++i) EXPECT_NEAR(loaded[i], mapped[i], 1e-6) << id;
    EXPECT_NEAR(pools[0]->features().squared_norms()[row], pools[1]->features().squared_norms()[row], 1e-9);
    for (const auto& pool : pools) {
      EXPECT_EQ(pool->ids().Find(id), row);
      EXPECT_EQ(pool->PayloadOf(id), absl::StrCat("see ", row));
      EXPECT_EQ(pool->CostOf(row), 0.5 * row);
    }
  }
}

TEST_F(CampaignPoolTest, KnowsTheContentOfItsRowsAsAnImportDoes) {
  const std::string more = Imported("more", RowsText(40, 55));
  // The fingerprints by which imports recognize rows.
  std::map<std::string, std::uint64_t> expected;
  for (const std::string& folder : {folder_.imported_pool(), more}) {
    const auto pool = storage::MappedPool::Open(folder);
    ASSERT_TRUE(pool.ok()) << pool.status();
    const auto ids = pool->Ids();
    for (std::size_t block = 0; block < pool->blocks(); ++block) {
      storage::PoolBlock rows;
      storage::FingerprintRows(**pool->Block(block), pool->shape(), rows);
      for (std::size_t i = 0; i < rows.content_fingerprints.size(); ++i) {
        const auto row = static_cast<RowIndex>(pool->FirstRowOf(block) + static_cast<std::int64_t>(i));
        expected[ids->TextOf(row)] = rows.content_fingerprints[i];
      }
    }
  }
  ASSERT_EQ(expected.size(), 55u);
  for (const std::size_t memory : {kMuchMemory, std::size_t{0}}) {
    const auto pool = *(*CampaignPool::Load(plan_, folder_, memory))->With(more);
    CampaignPool::OpenFolders opened;
    for (const auto& [id, content] : expected) EXPECT_EQ(*pool->ContentOf(id, opened), content) << id;
    EXPECT_EQ(*pool->ContentOf("x55", opened), std::nullopt);
  }
}

TEST_F(CampaignPoolTest, GrowsTwiceFromTheSameRows) {
  const std::string more = Imported("more", RowsText(40, 55)), other = Imported("other", RowsText(55, 75));
  const auto first = *CampaignPool::Load(plan_, folder_, kMuchMemory);
  const auto last_row = [](const CampaignPool& pool) {
    std::vector<double> row(3);
    pool.CopyRow(static_cast<RowIndex>(pool.rows() - 1), row);
    return row;
  };
  const std::vector<double> before = last_row(*first);
  auto refused = *first->With(more);
  const std::vector<double> of_more = last_row(*refused);
  // While the other one lives, and after it.
  const auto second = *first->With(other);
  EXPECT_EQ(last_row(*refused), of_more);
  refused.reset();
  const auto third = *first->With(other);
  EXPECT_EQ(last_row(*second), last_row(*third));
  EXPECT_EQ(last_row(*first), before);
  EXPECT_EQ(second->rows(), 60u);
  // Further than the memory behind the first rows reaches.
  auto grown = second;
  for (int i = 0; i < 6; ++i) {
    grown = *grown->With(Imported(absl::StrCat("part-", i), RowsText(100 + 30 * i, 130 + 30 * i)));
  }
  EXPECT_EQ(grown->rows(), 240u);
  std::vector<double> row(3);
  grown->CopyRow(39, row);
  EXPECT_EQ(row, before);
  for (const char* id : {"x0", "x39", "x55", "x74", "x100", "x279"}) {
    const auto found = grown->ids().Find(id);
    ASSERT_TRUE(found) << id;
    EXPECT_EQ(grown->ids().TextOf(*found), id);
  }
  EXPECT_FALSE(grown->ids().Find("x40"));
}

TEST_F(CampaignPoolTest, WhatIsImportedIsNotReadAgain) {
  std::filesystem::remove_all(directory_.File("sources"));
  ASSERT_TRUE(ImportOwnPool(plan_, {.root = directory_.File("sources")}, folder_).ok());
  EXPECT_EQ((*CampaignPool::Load(plan_, folder_, kMuchMemory))->rows(), 40u);
}

TEST_F(CampaignPoolTest, ASourceWithARowThatCannotBeTakenIsRefused) {
  directory_.Write("sources/bad.csv", RowsText(0, 500) + "x500,1,,nan,1,1\n");
  plan_.sources = {"bad.csv"};
  const storage::CampaignFolder other(directory_.File("other"));
  ASSERT_TRUE(other.Create().ok());
  const absl::Status status = ImportOwnPool(plan_, {.root = directory_.File("sources")}, other);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("bad.csv, row 500"));
  EXPECT_TRUE(std::filesystem::is_empty(other.pool()));
}

TEST(ResolvePoolSources, RefusesNamesThatTheSystemWouldReadOnlyInPart) {
  const testing::TemporaryDirectory folder;
  folder.Write("pool.csv", "a,label\n1,x\n");
  EXPECT_TRUE(ResolvePoolSources({"pool.csv"}, folder.path()).ok());
  const std::string cut("pool.csv\0", 9);
  EXPECT_EQ(ResolvePoolSources({cut}, folder.path()).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace fulcrum::pipeline
