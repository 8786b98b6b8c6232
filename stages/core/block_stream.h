// Streams the blocks of a pass over many rows.
//
// A pass processes blocks in parallel and takes their results one at a time in order, so that its sums do not depend on
// the number of threads. Only a few blocks are in progress at a time, so that its memory does not depend on the number
// of rows. The caller of the pass provides the stream: a flow graph (pipeline/round/flow.h), or a loop outside of
// graphs. Streams have no state and are thread-safe.
#pragma once

#include <cstddef>
#include <functional>

namespace fulcrum {

class BlockStream {
 public:
  using BlockCall = std::function<void(std::size_t block)>;

  virtual ~BlockStream() = default;

  /// Calls work(b) for every b below `blocks`, several at once, and take(b) one at a time in the order of b, each after
  /// its work. The blocks between the start of their work and the end of their take are consecutive, and at most
  /// `at_once`. Rethrows the exception of a call; throws StoppedOnRequest if the caller's StopScope was asked to stop.
  virtual void Run(std::size_t blocks, std::size_t at_once, const BlockCall& work, const BlockCall& take) const = 0;
};

/// Enough blocks that no thread has to wait while blocks are taken in order.
std::size_t BlocksForAllThreads();

/// Groups of `at_once` blocks: all of their work, then all of their takes.
const BlockStream& BlocksInTurns();

}  // namespace fulcrum
