#include "pipeline/round/memory_budget.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace fulcrum::pipeline {
namespace {

/// "max" or a missing file means no limit.
std::size_t LimitInFile(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::size_t bytes = 0;
  return file >> bytes ? bytes : std::numeric_limits<std::size_t>::max();
}

// The program with its libraries, and what the allocator does not give back.
constexpr std::size_t kProgramBytes = std::size_t{160} << 20;
// Labels, predictions, decision values, norms, scores, sums of similarities and the copies of them that are sorted.
constexpr std::size_t kBytesPerRow = 155;
constexpr std::size_t kLeastForEngines = std::size_t{32} << 20;

}  // namespace

std::size_t ControlGroupBytes(const std::string& membership, const std::string& root) {
  std::ifstream file(membership);
  std::filesystem::path group = "/";
  for (std::string line; std::getline(file, line);) {
    if (absl::StartsWith(line, "0::/")) group = line.substr(3);
  }
  std::size_t bytes = LimitInFile(root + "/memory.max");
  for (; group.has_relative_path(); group = group.parent_path()) {
    bytes = std::min(bytes, LimitInFile(root + group.string() + "/memory.max"));
  }
  return bytes;
}

std::size_t MachineMemoryBytes() {
  const auto pages = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES));
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGE_SIZE));
  return std::min(pages * page, ControlGroupBytes());
}

std::size_t UsableMemoryBytes() {
  return MachineMemoryBytes() / 4 * 3;
}

PoolMemory MemoryForPool(std::size_t total) {
  constexpr std::size_t kTaken = kProgramBytes + kLeastForEngines;
  return {.bytes = std::max(total, 2 * kTaken) - kTaken, .bytes_per_row = kBytesPerRow};
}

std::size_t MappedBytesToKeep(std::size_t total) {
  return total / 8;
}

absl::StatusOr<std::size_t> MemoryForEngines(std::size_t total, const kernel::Features& features, std::size_t labeled) {
  const std::size_t taken =
      kProgramBytes + features.rows() * kBytesPerRow + features.bytes() + sizeof(double) * labeled * labeled;
  if (total >= taken + kLeastForEngines) return total - taken;
  return absl::ResourceExhaustedError(absl::StrCat(
      "the memory limit is ", total >> 20, " MiB, and ", features.rows(), " rows need at least ",
      (taken + kLeastForEngines) >> 20, " MiB; allow more",
      features.precision() == kernel::Precision::kFloat ? "" : ", or import the pool: it stays on disk then"));
}

}  // namespace fulcrum::pipeline
