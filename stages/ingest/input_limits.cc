#include "stages/ingest/input_limits.h"

#include <map>
#include <memory>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "arrow/memory_pool.h"
#include "stages/ingest/recycling_pool.h"

namespace fulcrum::ingest {
namespace {

/// Where the memory of readers comes from.
arrow::MemoryPool* ReaderMemory() {
#if defined(__SANITIZE_ADDRESS__)
  // Blocks that are used again hide reads past their ends and after their time.
  return arrow::default_memory_pool();
#else
  constexpr std::int64_t kMostRecycled = std::int64_t{192} << 20;
  static auto* const memory = new RecyclingPool(arrow::default_memory_pool(), kMostRecycled);
  return memory;
#endif
}

}  // namespace

arrow::MemoryPool* CappedPool(std::int64_t limit) {
  static std::mutex mutex;
  static auto* const pools = new std::map<std::int64_t, std::unique_ptr<arrow::CappedMemoryPool>>();
  const std::scoped_lock lock(mutex);
  std::unique_ptr<arrow::CappedMemoryPool>& pool = (*pools)[limit];
  if (pool == nullptr) pool = std::make_unique<arrow::CappedMemoryPool>(ReaderMemory(), limit);
  return pool.get();
}

absl::Status CheckColumnCount(std::int64_t columns, const InputLimits& limits, absl::string_view path) {
  if (columns <= limits.max_columns) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(path, " has ", columns, " columns; at most ", limits.max_columns,
                                                   " are read. Put the features into one column of lists."));
}

}  // namespace fulcrum::ingest
