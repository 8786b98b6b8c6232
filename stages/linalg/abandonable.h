// Calls that cannot be interrupted, made so that whoever is asked to stop need not wait for their end.
//
// Inside a StopScope a large one runs on a thread of its own and owns all that it works on. Where the stop comes first,
// the caller goes at once, and the thread ends by itself when the call is done, its result dropped. Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "stages/core/stop_scope.h"

namespace fulcrum::linalg {

/// Calls that still run although nobody waits for them. A process that ends meanwhile must not tear down what they use:
/// it ends with _exit.
inline std::atomic<std::size_t>& AbandonedCalls() {
  static std::atomic<std::size_t> calls = 0;
  return calls;
}

/// Smaller problems take less than a stop may, and are not worth a thread.
inline constexpr std::size_t kAbandonableRows = 512;

/// Does `call.Run()` and gives the call back, with what it computed. It must own all that it touches and not throw.
/// StoppedOnRequest is thrown where the scope is asked to stop before it has ended.
template <typename Call>
Call RunAbandonably(std::size_t rows, Call call) {
  std::stop_token stop = StopScope::Token();
  if (rows < kAbandonableRows || !stop.stop_possible()) {
    call.Run();
    return call;
  }
  struct Pending {
    explicit Pending(Call given) : call(std::move(given)) {}
    Call call;
    std::mutex mutex = {};
    std::condition_variable_any ended = {};
    bool done = false;
    bool abandoned = false;
  };
  const auto pending = std::make_shared<Pending>(std::move(call));
  std::thread([pending] {
    pending->call.Run();
    const std::scoped_lock lock(pending->mutex);
    pending->done = true;
    pending->ended.notify_one();
    if (pending->abandoned) --AbandonedCalls();
  }).detach();
  std::unique_lock lock(pending->mutex);
  if (pending->ended.wait(lock, std::move(stop), [&] { return pending->done; })) return std::move(pending->call);
  pending->abandoned = true;
  ++AbandonedCalls();
  throw StoppedOnRequest();
}

}  // namespace fulcrum::linalg
