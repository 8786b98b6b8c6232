#include "pipeline/client/stop_flag.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>

namespace fulcrum::pipeline {
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
