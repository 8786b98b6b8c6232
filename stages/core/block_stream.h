// How a pass over many rows moves its blocks.
//
// A pass works on blocks in parallel and takes what came of them one after another in their order, so that its sums do
// not depend on the number of threads; a few blocks at a time, so that its memory does not depend on the number of
// rows. Who runs the pass says who moves the blocks: a flow graph (pipeline/block_flow.h), or a loop where there is
// none. Streams have no state: thread-safe.
#pragma once

#include <cstddef>
#include <functional>

namespace fulcrum {

class BlockStream {
 public:
  using BlockCall = std::function<void(std::size_t block)>;

  virtual ~BlockStream() = default;

  /// Calls work(b) for every b below `blocks`, several at once, and take(b) one at a time in the order of b, each after
  /// its work. Those between the start of their work and the end of their take are neighbours, and never more than
  /// `at_once`. Throws what a call throws, and StoppedOnRequest where the caller's StopScope was asked to stop.
  virtual void Run(std::size_t blocks, std::size_t at_once, const BlockCall& work, const BlockCall& take) const = 0;
};

/// So many at once that no thread has to wait while blocks are taken in order.
std::size_t BlocksForAllThreads();

/// Turns of `at_once` blocks: all of their work, then all of their takes.
const BlockStream& BlocksInTurns();

}  // namespace fulcrum
