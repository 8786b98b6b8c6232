#include "tests/fuzz/fuzz_reader.h"

#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>

#include "stages/ingest/pool.h"

namespace fulcrum::fuzz {
namespace {

constexpr std::int64_t kMostMemory = std::int64_t{256} << 20;

/// One file a process, in memory where the machine has such a place.
std::string PathFor(const char* ending) {
  static const std::string stem = [] {
    std::string path = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    path += "/fulcrum-fuzz-";
    path += std::to_string(getpid());
    return path;
  }();
  return stem + ending;
}

bool IsSound(const ingest::Pool& pool) {
  if (pool.ids.size() == 0 || pool.features.rows() != pool.ids.size()) return false;
  if (pool.features.is_sparse()) {
    for (double value : pool.features.sparse().values) {
      if (!std::isfinite(value)) return false;
    }
    return true;
  }
  for (std::size_t row = 0; row < pool.features.rows(); ++row) {
    for (double value : pool.features.dense().row(row)) {
      if (!std::isfinite(value)) return false;
    }
  }
  return true;
}

}  // namespace

void ReadAsPool(const std::uint8_t* data, std::size_t size, const char* ending) {
  const std::string path = PathFor(ending);
  {
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  }
  ingest::PoolOptions options;
  options.keep_labels = true;
  options.limits.max_columns = 1000;
  options.limits.max_row_group_bytes = kMostMemory;
  options.limits.max_memory_bytes = kMostMemory;
  const auto pool = ingest::LoadPool(path, options);
  unlink(path.c_str());
  if (pool.ok() && !IsSound(*pool)) std::abort();
}

}  // namespace fulcrum::fuzz
