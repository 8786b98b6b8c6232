#include "stages/ingest/input_limits.h"

#include <map>
#include <memory>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "arrow/memory_pool.h"

namespace fulcrum::ingest {

arrow::MemoryPool* CappedPool(std::int64_t limit) {
  static std::mutex mutex;
  static auto* const pools = new std::map<std::int64_t, std::unique_ptr<arrow::CappedMemoryPool>>();
  const std::scoped_lock lock(mutex);
  std::unique_ptr<arrow::CappedMemoryPool>& pool = (*pools)[limit];
  if (pool == nullptr) pool = std::make_unique<arrow::CappedMemoryPool>(arrow::default_memory_pool(), limit);
  return pool.get();
}

absl::Status CheckColumnCount(std::int64_t columns, const InputLimits& limits, absl::string_view path) {
  if (columns <= limits.max_columns) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(path, " has ", columns, " columns; at most ", limits.max_columns,
                                                   " are read. Put the features into one column of lists."));
}

}  // namespace fulcrum::ingest
