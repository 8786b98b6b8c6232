#include "storage/pool/pool_manifest.h"

#include <gtest/gtest.h>

namespace fulcrum::storage {
namespace {

PoolManifest Example() {
  PoolManifest manifest;
  manifest.features = 64;
  manifest.has_ids = true;
  manifest.rejected = 3;
  manifest.statistics_file = "statistics-00001.arrow";
  manifest.rejected_files = {"rejected.parquet"};
  manifest.parts = {{"part-00000.arrow", 1000, {{10, 0xdeadbeef}, {20, 1}}}, {"part-00001.arrow", 5, {}}};
  return manifest;
}

TEST(PoolManifestTest, ComesBackAsItWas) {
  const auto manifest = ParseManifest(FormatManifest(Example()));
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->rows(), 30);
  EXPECT_EQ(manifest->features, 64);
  EXPECT_TRUE(manifest->has_ids);
  EXPECT_EQ(manifest->rejected, 3);
  EXPECT_EQ(manifest->rejected_files, Example().rejected_files);
  ASSERT_EQ(manifest->parts.size(), 2u);
  EXPECT_EQ(manifest->parts[0].blocks[0].checksum, 0xdeadbeefu);
  EXPECT_EQ(FormatManifest(*manifest), FormatManifest(Example()));
}

TEST(PoolManifestTest, EveryChangeOfAByteIsNoticed) {
  const std::string text = FormatManifest(Example());
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 4);
    EXPECT_FALSE(ParseManifest(changed).ok()) << i;
    EXPECT_FALSE(ParseManifest(text.substr(0, i)).ok() && i + 1 < text.size()) << i;
  }
}

}  // namespace
}  // namespace fulcrum::storage
