// Memory for batches of rows that come and go: what one gave back, the next gets.
//
// A block that goes back to the system costs a page fault for every 4 KiB when the next batch needs it again. This pool
// keeps blocks of middle size in one region of huge pages, by size, and asks another pool for all else. Its region is
// bounded, takes real memory only where it was used, and is given back whenever nobody holds a block. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "arrow/memory_pool.h"

namespace fulcrum::ingest {

class RecyclingPool final : public arrow::MemoryPool {
 public:
  /// `parent` must outlive it. Where the system refuses the region, the parent serves everything.
  RecyclingPool(arrow::MemoryPool* parent, std::int64_t region_bytes);
  ~RecyclingPool() override;
  RecyclingPool(const RecyclingPool&) = delete;
  RecyclingPool& operator=(const RecyclingPool&) = delete;

  using arrow::MemoryPool::Allocate;
  using arrow::MemoryPool::Free;
  using arrow::MemoryPool::Reallocate;
  arrow::Status Allocate(std::int64_t size, std::int64_t alignment, std::uint8_t** out) override;
  arrow::Status Reallocate(std::int64_t old_size, std::int64_t new_size, std::int64_t alignment,
                           std::uint8_t** block) override;
  void Free(std::uint8_t* block, std::int64_t size, std::int64_t alignment) override;

  /// What is held here and of the parent.
  std::int64_t bytes_allocated() const override { return held_ + parent_->bytes_allocated(); }
  std::int64_t total_bytes_allocated() const override { return total_ + parent_->total_bytes_allocated(); }
  std::int64_t num_allocations() const override { return count_ + parent_->num_allocations(); }
  std::string backend_name() const override { return "recycling"; }

 private:
  bool Owns(const std::uint8_t* block) const { return block >= region_ && block < region_ + region_bytes_; }
  std::int64_t& CapacityOf(const std::uint8_t* block);
  std::uint8_t* TakeBlock(std::int64_t size);
  void GiveBack(std::uint8_t* block);

  arrow::MemoryPool* parent_;
  std::int64_t region_bytes_;
  std::uint8_t* region_ = nullptr;
  std::atomic<std::int64_t> held_{0};
  std::atomic<std::int64_t> total_{0};
  std::atomic<std::int64_t> count_{0};

  std::mutex mutex_;  // guards what follows
  std::int64_t used_ = 0;
  std::int64_t live_blocks_ = 0;
  std::map<std::int64_t, std::vector<std::uint8_t*>> free_;  // by capacity
  std::vector<std::int64_t> capacities_;                     // by the page that a block begins with
};

}  // namespace fulcrum::ingest
