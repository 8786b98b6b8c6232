// How a thread that waits for an answer is woken.
//
// Waking is dear: a writer that wakes a hundred threads one after the other could have written a hundred labels. So it
// wakes a few of those it has answered, and each of these wakes the next. Who waits sleeps at once: a commit takes
// longer than it is worth looking again, and threads that yield to each other meanwhile keep the writer from its work.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace fulcrum::storage {

/// Outlives those who wait for it, so that ringing touches nothing of somebody who is awake already and gone. Several
/// may share one; each looks whether its own answer is there whenever it rings. Thread-safe.
class AnswerBell {
 public:
  /// After an answer has been given.
  void Ring();

  /// Returns once `answered` is true. Whoever makes it true rings afterwards, or is the caller itself, before the call.
  void WaitFor(const std::atomic<bool>& answered);

 private:
  std::atomic<std::uint32_t> rings_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};

/// Somebody who waits for one answer. Wait is called by the thread that made it, Answered once by any thread.
class AnswerWaiter {
 public:
  explicit AnswerWaiter(AnswerBell& bell) : bell_(bell) {}

  /// The answer is there. Wakes who waits, or leaves that to the WakeInChains of this thread.
  void Answered();
  void Wait();

 private:
  AnswerBell& bell_;
  AnswerBell* next_ = nullptr;  // of who is woken by this one
  std::atomic<bool> answered_ = false;
};

/// While it lives, those whom its thread answers are woken in chains: the first of each by this thread, the others by
/// one another. One a thread at a time.
class WakeInChains {
 public:
  WakeInChains();
  ~WakeInChains();
  WakeInChains(const WakeInChains&) = delete;
  WakeInChains& operator=(const WakeInChains&) = delete;

 private:
  friend class AnswerWaiter;
  /// Puts a bell before the others of the chain; the one that was first before, or null.
  AnswerBell* PutFirst(AnswerBell& bell);
  void EndChain();

  AnswerBell* first_ = nullptr;
  std::size_t length_ = 0;
};

}  // namespace fulcrum::storage
