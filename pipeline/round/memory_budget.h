// How much memory a run may use unless a limit is given: what the machine, or the container, has.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "stages/kernel/features.h"

namespace fulcrum::pipeline {

/// The smallest memory limit of the process's control group and the groups above it (version 2); the largest number if
/// there is none. The arguments are for tests.
std::size_t ControlGroupBytes(const std::string& membership = "/proc/self/cgroup",
                              const std::string& root = "/sys/fs/cgroup");

/// The machine's memory, or the control group's limit if that is less.
std::size_t MachineMemoryBytes();

/// Three quarters of that.
std::size_t UsableMemoryBytes();

/// How much of `total` a pool in memory may take together with what reads it, and what a round adds for each row.
struct PoolMemory {
  std::size_t bytes = 0;
  std::size_t bytes_per_row = 0;
};
PoolMemory MemoryForPool(std::size_t total);

/// So much of a pool that is mapped may stay in memory; of a larger one nothing does.
std::size_t MappedBytesToKeep(std::size_t total);

/// What is left for the engines of `total`, once the program, the pool's features and what a round keeps of every row
/// have had theirs. ResourceExhausted if that is nothing.
absl::StatusOr<std::size_t> MemoryForEngines(std::size_t total, const kernel::Features& features, std::size_t labeled);

}  // namespace fulcrum::pipeline
