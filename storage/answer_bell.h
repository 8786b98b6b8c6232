// Wakes all who wait for answers at once: one call to the system a commit instead of one an answer.
//
// A waiter looks whether its own answer is there whenever the bell rings. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

namespace fulcrum::storage {

class AnswerBell {
 public:
  /// After all answers of a group have been given.
  void Ring() {
    rings_.fetch_add(1, std::memory_order_release);
    rings_.notify_all();
  }

  /// Returns once `answered` is true. Whoever makes it true rings afterwards, or is the caller itself, before the call.
  void WaitFor(const std::atomic<bool>& answered) const {
    for (;;) {
      // Before looking: an answer that comes after the look changes the number, and the wait ends at once.
      const std::uint32_t seen = rings_.load(std::memory_order_acquire);
      if (answered.load(std::memory_order_acquire)) return;
      rings_.wait(seen, std::memory_order_acquire);
    }
  }

 private:
  std::atomic<std::uint32_t> rings_{0};
};

}  // namespace fulcrum::storage
