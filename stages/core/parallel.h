// Parallel loops over fixed blocks.
//
// The blocks depend only on the size of the problem, never on the number of threads, so results are bit-identical on
// any machine. Loops are isolated: a thread that waits for its own blocks does not execute unrelated graph nodes. A
// loop inside a StopScope ends between blocks if it is asked to stop.
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <functional>
#include <stop_token>
#include <utility>

#include "tbb/parallel_for.h"
#include "tbb/task_arena.h"

namespace fulcrum {

// Cancellation of long computations.
//
// The caller opens a StopScope with its std::stop_token. Everything that runs below it on this thread, and in the
// parallel loops of parallel.h that it starts, belongs to the scope, so that numerical code does not need a token
// parameter. Loops check between their blocks and end with an exception, because a partial result must not be used. The
// code that opened the scope catches it. Outside of any scope nothing is stopped. Scopes are per thread and may be
// nested.

/// Thrown by a computation whose scope was asked to stop.
class StoppedOnRequest final : public std::exception {
 public:
  const char* what() const noexcept override { return "stopped on request"; }
};

class StopScope {
 public:
  explicit StopScope(std::stop_token stop) : stop_(std::move(stop)), outer_(std::exchange(innermost_, this)) {}
  ~StopScope() { innermost_ = outer_; }
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

  /// Returns the token of the innermost scope of this thread, for a loop that continues on other threads.
  static std::stop_token Token() { return innermost_ == nullptr ? std::stop_token() : innermost_->stop_; }

 private:
  friend void ThrowIfStopRequested();

  const std::stop_token stop_;
  StopScope* const outer_;
  static thread_local constinit inline StopScope* innermost_ = nullptr;
};

/// Call this in any long loop, at least a few times per second.
inline void ThrowIfStopRequested() {
  if (StopScope::innermost_ != nullptr && StopScope::innermost_->stop_.stop_requested()) throw StoppedOnRequest();
}

/// Calls body(first, count) for consecutive blocks of at most `block` items of [0, total), in parallel. Throws
/// StoppedOnRequest if the caller's StopScope was asked to stop before the end.
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

// Streams the blocks of a pass over many rows.
//
// A pass processes blocks in parallel and takes their results one at a time in order, so that its sums do not depend on
// the number of threads. Only a few blocks are in progress at a time, so that its memory does not depend on the number
// of rows. The caller of the pass provides the stream: a flow graph (pipeline/round/flow.h), or a loop outside of
// graphs. Streams have no state and are thread-safe.

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
