#include "stages/core/parallel.h"

#include <algorithm>

namespace fulcrum {
namespace {

class Turns final : public BlockStream {
 public:
  void Run(std::size_t blocks, std::size_t at_once, const BlockCall& work, const BlockCall& take) const override {
    for (std::size_t first = 0; first < blocks; first += at_once) {
      const std::size_t count = std::min(at_once, blocks - first);
      ParallelForBlocks(count, 1, [&](std::size_t block, std::size_t) { work(first + block); });
      for (std::size_t block = first; block < first + count; ++block) take(block);
    }
  }
};

}  // namespace

std::size_t BlocksForAllThreads() {
  return 4 * static_cast<std::size_t>(tbb::this_task_arena::max_concurrency());
}

const BlockStream& BlocksInTurns() {
  static const Turns turns;
  return turns;
}

}  // namespace fulcrum
