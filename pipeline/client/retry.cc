#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/client/server_connection.h"
#include "pipeline/text/status.h"

namespace fulcrum::pipeline {

Retrier::Retrier(RetryPolicy policy, Timing timing, std::uint64_t seed, OnTrouble on_trouble)
    : policy_(policy), timing_(std::move(timing)), on_trouble_(std::move(on_trouble)), random_(seed) {}

std::chrono::milliseconds Retrier::Jittered(std::chrono::milliseconds pause) {
  const auto half = pause.count() / 2;
  return std::chrono::milliseconds(
      half + static_cast<std::int64_t>(random_.Below(static_cast<std::uint64_t>(pause.count() - half + 1))));
}

absl::Status Retrier::Call(const Attempt& attempt) {
  const auto end = timing_.now() + policy_.give_up_after;
  auto pause = policy_.first_pause;
  for (bool first = true;; first = false) {
    const absl::Status status = attempt();
    if (!MayPass(status) || timing_.now() >= end) return status;
    if (first && on_trouble_) on_trouble_(status);
    // A server that says when it has time again is not asked before.
    const auto wanted = std::min(RetryDelayOf(status).value_or(std::chrono::milliseconds(0)), policy_.longest_pause);
    if (!timing_.sleep(std::max(Jittered(pause), wanted))) {
      return absl::CancelledError(absl::StrCat("asked to end while the server was away: ", status.message()));
    }
    pause = std::min(2 * pause, policy_.longest_pause);
    ++repeats_;
  }
}

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

std::atomic<StopFlag*> flag_of_signals{nullptr};
std::atomic<void (*)()> last_act{nullptr};
struct sigaction earlier_actions[std::size(kSignals)];

void OnSignal(int number) {
  const int kept_errno = errno;
  StopFlag* flag = flag_of_signals.load();
  if (flag == nullptr || flag->raised()) {
    if (auto* act = last_act.load()) act();
    _exit(128 + number);
  }
  flag->Raise();
  errno = kept_errno;
}

}  // namespace

StopFlag::StopFlag() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

StopFlag::~StopFlag() {
  close(descriptor_);
}

void StopFlag::Raise() {
  raised_.store(true);
  const std::uint64_t one = 1;
  // Where it cannot be written, it is readable already.
  if (write(descriptor_, &one, sizeof(one)) < 0) return;
}

bool StopFlag::Sleep(std::chrono::milliseconds time) const {
  const Clock::time_point end = Clock::now() + time;
  while (!raised()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return true;
    pollfd watched{descriptor_, POLLIN, 0};
    poll(&watched, 1, static_cast<int>(left));
  }
  return false;
}

StopOnSignals::StopOnSignals(StopFlag& flag) {
  flag_of_signals.store(&flag);
  struct sigaction action {};
  action.sa_handler = OnSignal;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &action, &earlier_actions[i]);
}

StopOnSignals::~StopOnSignals() {
  for (std::size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &earlier_actions[i], nullptr);
  flag_of_signals.store(nullptr);
}

void StopOnSignals::SetLastAct(void (*act)()) {
  last_act.store(act);
}

}  // namespace fulcrum::pipeline
