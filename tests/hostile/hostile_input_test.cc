// Damaged files are answered by an error that names them or by a sound pool: never by a crash, a hang or unbounded
// memory. FULCRUM_HOSTILE_ROUNDS sets how often each file is damaged, FULCRUM_HOSTILE_FOLDER names files of others
// (Apache's parquet-testing and arrow-testing) to be tried as they are.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "arrow/memory_pool.h"
#include "arrow/record_batch.h"
#include "stages/ingest/formats/table_source.h"
#include "stages/ingest/pool.h"
#include "storage/pool/pool_block.h"
#include "tests/hostile/file_corpus.h"
#include "tests/hostile/lying_parquet.h"
#include "tests/hostile/mutation.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::hostile {
namespace {

constexpr std::int64_t kMostMemory = std::int64_t{64} << 20;

ingest::InputLimits Limits() {
  ingest::InputLimits limits;
  limits.max_columns = 1000;
  limits.max_row_group_bytes = kMostMemory;
  limits.max_text_bytes = 1 << 20;
  limits.max_memory_bytes = kMostMemory;
  return limits;
}

void ExpectSound(const ingest::Pool& pool) {
  ASSERT_GT(pool.ids.size(), 0u);
  ASSERT_EQ(pool.features.rows(), pool.ids.size());
  if (pool.features.is_sparse()) {
    const SparseMatrix& sparse = pool.features.sparse();
    ASSERT_EQ(sparse.columns.size(), sparse.values.size());
    for (double value : sparse.values) ASSERT_TRUE(std::isfinite(value));
    for (std::int32_t column : sparse.columns) ASSERT_LT(static_cast<std::size_t>(column), sparse.cols);
    return;
  }
  for (std::size_t row = 0; row < pool.features.rows(); ++row) {
    for (double value : pool.features.dense().row(row)) ASSERT_TRUE(std::isfinite(value));
  }
}

/// As `fulcrum select` reads it.
bool LoadsOrFails(const std::string& path) {
  const auto pool = ingest::LoadPool(path, {.keep_labels = true, .limits = Limits()});
  if (pool.ok()) ExpectSound(*pool);
  EXPECT_TRUE(pool.ok() || absl::StrContains(pool.status().message(), std::filesystem::path(path).filename().string()))
      << pool.status();
  // Exit code 65 of the program, or 75 if it needs more memory than it may use: never 70, which is a bug of ours.
  EXPECT_TRUE(pool.ok() || absl::IsDataLoss(pool.status()) || absl::IsResourceExhausted(pool.status()))
      << pool.status();
  return pool.ok();
}

/// As `fulcrum import` reads it, rows with faults set aside.
void BuildsOrFails(const std::string& path) {
  auto source = ingest::OpenSources({path}, {}, Limits());
  if (!source.ok()) return;
  auto roles = ingest::AssignRoles(*(*source)->schema(), {}, path);
  if (!roles.ok()) return;
  for (;;) {
    const auto batch = (*source)->Next();
    if (!batch.ok() || *batch == nullptr) return;
    ingest::SettleWidths(**batch, *roles);
    if (!roles->sparse() && roles->width() == 0) return;
    const auto built = storage::BuildBlock(**batch, *roles, Limits());
    if (!built.ok()) return;
    ASSERT_EQ(static_cast<std::size_t>((*batch)->num_rows()), built->rejected.size() + built->block.source_rows.size());
    ASSERT_TRUE(built->block.batch->ValidateFull().ok());
  }
}

std::uint64_t Rounds() {
  const char* wanted = std::getenv("FULCRUM_HOSTILE_ROUNDS");
  return wanted == nullptr ? 10 : std::strtoull(wanted, nullptr, 10);
}

TEST(HostileInputTest, TheFilesAreReadBeforeTheyAreDamaged) {
  const testing::TemporaryDirectory folder;
  std::size_t read = 0;
  const std::vector<CorpusFile> corpus = MakeCorpus();
  for (const CorpusFile& file : corpus) read += LoadsOrFails(folder.Write(file.name, file.bytes)) ? 1 : 0;
  // Structs, lists of lists and nulls are no features; all the others are.
  EXPECT_GE(read, corpus.size() / 2);
}

TEST(HostileInputTest, DamagedFilesAreAnsweredByAnErrorOrASoundPool) {
  const testing::TemporaryDirectory folder;
  const std::vector<CorpusFile> corpus = MakeCorpus();
  std::size_t tried = 0, failed = 0;
  for (std::size_t i = 0; i < corpus.size(); ++i) {
    for (std::uint64_t round = 0; round < Rounds(); ++round, ++tried) {
      SCOPED_TRACE(absl::StrCat(corpus[i].name, ", round ", round));
      Random random = Random::Fork(i, round);
      const std::string& other = corpus[random.Below(corpus.size())].bytes;
      const std::string path = folder.Write(corpus[i].name, Mutate(corpus[i].bytes, other, random));
      failed += LoadsOrFails(path) ? 0 : 1;
      BuildsOrFails(path);
      // What Arrow holds in all, the little that the corpus itself took included.
      ASSERT_LE(arrow::default_memory_pool()->max_memory(), kMostMemory + (std::int64_t{8} << 20));
    }
  }
  EXPECT_GE(tried, Rounds() >= 10 ? 500u : 0u);
  // Damage that nobody notices would be no test.
  EXPECT_GE(failed, tried / 4);
}

TEST(HostileInputTest, FilesThatLieAreAnsweredByAnErrorOrASoundPool) {
  const testing::TemporaryDirectory folder;
  for (const CorpusFile& file : HonestParquet()) {
    EXPECT_TRUE(LoadsOrFails(folder.Write(file.name, file.bytes))) << file.name;
  }
  const std::vector<CorpusFile> lies = LyingParquet();
  std::size_t failed = 0, valid_types = 0;
  for (const CorpusFile& file : lies) {
    SCOPED_TRACE(file.name);
    const std::string path = folder.Write(file.name, file.bytes);
    const bool loads = LoadsOrFails(path);
    failed += loads ? 0 : 1;
    valid_types += loads && file.name.ends_with("_type.parquet") && !file.name.ends_with("page_type.parquet") ? 1 : 0;
    BuildsOrFails(path);
    ASSERT_LE(arrow::default_memory_pool()->max_memory(), kMostMemory + (std::int64_t{8} << 20));
  }
  // Two of the types that a column may claim are valid for its bytes; one of them is bool, which is a feature.
  EXPECT_LE(valid_types, 2u);
  // Some others are harmless: no reader uses what a page of the second version says about its nulls.
  EXPECT_GE(failed + 1, lies.size() * 3 / 4);
}

TEST(HostileInputTest, FilesOfOthers) {
  const char* given = std::getenv("FULCRUM_HOSTILE_FOLDER");
  if (given == nullptr) GTEST_SKIP() << "FULCRUM_HOSTILE_FOLDER names no folder";
  const testing::TemporaryDirectory folder;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(given)) {
    if (!entry.is_regular_file()) continue;
    SCOPED_TRACE(entry.path().string());
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    // Fuzz corpora have names that say nothing about the format.
    for (const char* name : {"f.parquet", "f.arrow", "f.csv", "f.svm"}) {
      const std::string path = folder.Write(name, bytes);
      LoadsOrFails(path);
      BuildsOrFails(path);
    }
  }
}

}  // namespace
}  // namespace fulcrum::hostile
