#include "storage/answer_bell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <utility>

namespace fulcrum::storage {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t), "what the system compares");

// Long ones save the writer more, short ones wake the last of them sooner.
constexpr std::size_t kLongestChain = 8;

thread_local WakeInChains* chains_of_this_thread = nullptr;

}  // namespace

void AnswerBell::Ring() {
  rings_.fetch_add(1);
  if (sleepers_.load() > 0) syscall(SYS_futex, &rings_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void AnswerBell::WaitFor(const std::atomic<bool>& answered) {
  for (;;) {
    // Before looking: an answer that comes after the look changes the number, and the system lets nobody sleep then.
    const std::uint32_t seen = rings_.load();
    if (answered.load(std::memory_order_acquire)) return;
    // Before sleeping: who rings later sees it, and who rang before has changed the number.
    sleepers_.fetch_add(1);
    syscall(SYS_futex, &rings_, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
    sleepers_.fetch_sub(1);
  }
}

void AnswerWaiter::Answered() {
  AnswerBell& bell = bell_;
  WakeInChains* const chains = chains_of_this_thread;
  if (chains != nullptr) next_ = chains->PutFirst(bell);
  answered_.store(true, std::memory_order_release);
  // From here on the waiter may be gone.
  if (chains == nullptr) {
    bell.Ring();
  } else if (chains->length_ == kLongestChain) {
    chains->EndChain();
  }
}

void AnswerWaiter::Wait() {
  bell_.WaitFor(answered_);
  if (next_ != nullptr) next_->Ring();
}

WakeInChains::WakeInChains() {
  chains_of_this_thread = this;
}

WakeInChains::~WakeInChains() {
  EndChain();
  chains_of_this_thread = nullptr;
}

AnswerBell* WakeInChains::PutFirst(AnswerBell& bell) {
  ++length_;
  return std::exchange(first_, &bell);
}

void WakeInChains::EndChain() {
  if (first_ != nullptr) first_->Ring();
  first_ = nullptr;
  length_ = 0;
}

}  // namespace fulcrum::storage
