// Parallel loops over fixed blocks.
//
// The blocks depend on the size of the problem alone, never on the number of threads, so results
// are the same bit for bit whatever the machine. Loops are isolated: a thread that waits for its
// own blocks does not pick up an unrelated graph node meanwhile. A loop inside a StopScope ends between
// blocks where it is asked to.
#pragma once

#include <algorithm>
#include <cstddef>

#include "stages/core/stop_scope.h"
#include "tbb/parallel_for.h"
#include "tbb/task_arena.h"

namespace fulcrum {

/// Calls body(first, count) for consecutive blocks of at most `block` items of [0, total), in parallel. Throws
/// StoppedOnRequest where the caller's StopScope was asked to stop before the end.
template <typename Body>
void ParallelForBlocks(std::size_t total, std::size_t block, const Body& body) {
  ThrowIfStopRequested();
  const std::size_t blocks = (total + block - 1) / block;
  if (blocks <= 1) {
    if (total > 0) body(std::size_t{0}, total);
    return;
  }
  const std::stop_token stop = StopScope::Token();
  tbb::this_task_arena::isolate([&] {
    tbb::parallel_for(
        std::size_t{0}, blocks,
        [&](std::size_t index) {
          const StopScope scope(stop);
          ThrowIfStopRequested();
          const std::size_t first = index * block;
          body(first, std::min(block, total - first));
        },
        tbb::simple_partitioner());
  });
}

}  // namespace fulcrum
