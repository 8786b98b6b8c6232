#include "stages/ingest/recycling_pool.h"

#include <algorithm>
#include <numeric>

#include "gtest/gtest.h"

namespace fulcrum::ingest {
namespace {

constexpr std::int64_t kKiB = 1024, kMiB = 1024 * kKiB;

std::uint8_t* Take(RecyclingPool& pool, std::int64_t size) {
  std::uint8_t* block = nullptr;
  EXPECT_TRUE(pool.Allocate(size, &block).ok());
  return block;
}

TEST(RecyclingPoolTest, ABlockGivenBackIsTheNextOfItsSize) {
  RecyclingPool pool(arrow::default_memory_pool(), 8 * kMiB);
  std::uint8_t* const held = Take(pool, kMiB);
  std::uint8_t* const first = Take(pool, 100 * kKiB);
  EXPECT_NE(first, held);
  pool.Free(first, 100 * kKiB);
  EXPECT_EQ(Take(pool, 99 * kKiB), first);
  EXPECT_NE(Take(pool, 99 * kKiB), first);
}

TEST(RecyclingPoolTest, CountsWhatIsHeldHereAndOfItsParent) {
  arrow::ProxyMemoryPool parent(arrow::default_memory_pool());
  RecyclingPool pool(&parent, 8 * kMiB);
  std::uint8_t* const middle = Take(pool, 100 * kKiB);
  std::uint8_t* const small = Take(pool, 100);
  std::uint8_t* const large = Take(pool, 20 * kMiB);
  EXPECT_EQ(parent.bytes_allocated(), 100 + 20 * kMiB);
  EXPECT_EQ(pool.bytes_allocated(), 100 * kKiB + 100 + 20 * kMiB);
  pool.Free(middle, 100 * kKiB);
  pool.Free(small, 100);
  pool.Free(large, 20 * kMiB);
  EXPECT_EQ(pool.bytes_allocated(), 0);
}

TEST(RecyclingPoolTest, WhatDoesNotFitTheRegionComesFromTheParent) {
  arrow::ProxyMemoryPool parent(arrow::default_memory_pool());
  RecyclingPool pool(&parent, kMiB);
  std::uint8_t* const first = Take(pool, kMiB);
  EXPECT_EQ(parent.bytes_allocated(), 0);
  std::uint8_t* const second = Take(pool, kMiB);
  EXPECT_EQ(parent.bytes_allocated(), kMiB);
  pool.Free(second, kMiB);
  pool.Free(first, kMiB);
  EXPECT_EQ(parent.bytes_allocated(), 0);
}

TEST(RecyclingPoolTest, ContentStaysWhileABlockGrowsAndShrinks) {
  arrow::ProxyMemoryPool parent(arrow::default_memory_pool());
  RecyclingPool pool(&parent, 4 * kMiB);
  std::int64_t size = 256;
  std::uint8_t* block = Take(pool, size);
  std::iota(block, block + size, std::uint8_t{0});
  for (const std::int64_t next : {40 * kKiB, 41 * kKiB, 3 * kMiB, 17 * kMiB, 18 * kMiB, 50 * kKiB, std::int64_t{300}}) {
    ASSERT_TRUE(pool.Reallocate(size, next, &block).ok());
    size = next;
    for (int i = 0; i < 256; ++i) ASSERT_EQ(block[i], i) << next;
    std::fill(block + 256, block + size, std::uint8_t{7});
    EXPECT_EQ(pool.bytes_allocated(), size);
  }
  pool.Free(block, size);
  EXPECT_EQ(pool.bytes_allocated(), 0);
}

}  // namespace
}  // namespace fulcrum::ingest
