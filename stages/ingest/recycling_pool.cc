#include "stages/ingest/recycling_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace fulcrum::ingest {
namespace {

constexpr std::int64_t kSmallestBlock = 32 << 10;
constexpr std::int64_t kLargestBlock = std::int64_t{16} << 20;
constexpr std::int64_t kPage = 4096;

bool IsMiddleSized(std::int64_t size, std::int64_t alignment) {
  return size >= kSmallestBlock && size <= kLargestBlock && alignment <= kPage;
}

/// The size up to which a block can be used again: four steps between powers of two, so at most a fifth is wasted.
std::int64_t CapacityFor(std::int64_t size) {
  const int shift = std::bit_width(static_cast<std::uint64_t>(size - 1)) - 3;
  return (((size - 1) >> shift) + 1) << shift;
}

}  // namespace

RecyclingPool::RecyclingPool(arrow::MemoryPool* parent, std::int64_t region_bytes)
    : parent_(parent), region_bytes_(region_bytes) {
  void* region = mmap(nullptr, static_cast<std::size_t>(region_bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (region == MAP_FAILED) {
    region_bytes_ = 0;
    return;
  }
  region_ = static_cast<std::uint8_t*>(region);
  (void)madvise(region_, static_cast<std::size_t>(region_bytes_), MADV_HUGEPAGE);
  capacities_.resize(static_cast<std::size_t>(region_bytes_ / kPage));
}

RecyclingPool::~RecyclingPool() {
  if (region_ != nullptr) munmap(region_, static_cast<std::size_t>(region_bytes_));
}

std::int64_t& RecyclingPool::CapacityOf(const std::uint8_t* block) {
  return capacities_[static_cast<std::size_t>((block - region_) / kPage)];
}

std::uint8_t* RecyclingPool::TakeBlock(std::int64_t size) {
  const std::int64_t capacity = CapacityFor(size);
  const std::scoped_lock lock(mutex_);
  std::vector<std::uint8_t*>& unused = free_[capacity];
  std::uint8_t* block = nullptr;
  if (!unused.empty()) {
    block = unused.back();
    unused.pop_back();
  } else if (capacity <= region_bytes_ - used_) {
    block = region_ + used_;
    used_ += capacity;
    CapacityOf(block) = capacity;
  }
  if (block != nullptr) ++live_blocks_;
  return block;
}

void RecyclingPool::GiveBack(std::uint8_t* block) {
  const std::scoped_lock lock(mutex_);
  free_[CapacityOf(block)].push_back(block);
  if (--live_blocks_ > 0) return;
  (void)madvise(region_, static_cast<std::size_t>(used_), MADV_DONTNEED);
  free_.clear();
  used_ = 0;
}

arrow::Status RecyclingPool::Allocate(std::int64_t size, std::int64_t alignment, std::uint8_t** out) {
  std::uint8_t* const block = IsMiddleSized(size, alignment) ? TakeBlock(size) : nullptr;
  if (block == nullptr) return parent_->Allocate(size, alignment, out);
  *out = block;
  held_ += size;
  total_ += size;
  ++count_;
  return arrow::Status::OK();
}

arrow::Status RecyclingPool::Reallocate(std::int64_t old_size, std::int64_t new_size, std::int64_t alignment,
                                        std::uint8_t** block) {
  if (!Owns(*block)) {
    const bool moves_here = old_size < kSmallestBlock && IsMiddleSized(new_size, alignment);
    if (!moves_here) return parent_->Reallocate(old_size, new_size, alignment, block);
  } else if (new_size > 0 && new_size <= CapacityOf(*block)) {
    held_ += new_size - old_size;
    total_ += std::max<std::int64_t>(0, new_size - old_size);
    return arrow::Status::OK();
  }
  std::uint8_t* target = nullptr;
  ARROW_RETURN_NOT_OK(Allocate(new_size, alignment, &target));
  std::memcpy(target, *block, static_cast<std::size_t>(std::min(old_size, new_size)));
  Free(*block, old_size, alignment);
  *block = target;
  return arrow::Status::OK();
}

void RecyclingPool::Free(std::uint8_t* block, std::int64_t size, std::int64_t alignment) {
  if (!Owns(block)) return parent_->Free(block, size, alignment);
  held_ -= size;
  GiveBack(block);
}

}  // namespace fulcrum::ingest
