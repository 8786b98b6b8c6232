#include "pipeline/operation/service_notice.h"

#include <systemd/sd-daemon.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace fulcrum::pipeline {
namespace {

// What the manager does not hear it will find out: a lost message is no reason to end.
void Notify(const std::string& state) {
  (void)sd_notify(/*unset_environment=*/0, state.c_str());
}

}  // namespace

void NotifyReady() {
  Notify("READY=1");
}

void NotifyStopping(std::chrono::milliseconds within) {
  const auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(within).count();
  Notify(absl::StrCat("STOPPING=1\nEXTEND_TIMEOUT_USEC=", microseconds));
}

void NotifyStatus(const std::string& text) {
  Notify(absl::StrCat("STATUS=", absl::StrReplaceAll(text, {{"\n", " "}})));
}

void NotifyAlive() {
  Notify("WATCHDOG=1");
}

std::optional<std::chrono::microseconds> WatchdogTime() {
  std::uint64_t microseconds = 0;
  if (sd_watchdog_enabled(/*unset_environment=*/0, &microseconds) <= 0) return std::nullopt;
  return std::chrono::microseconds(microseconds);
}

}  // namespace fulcrum::pipeline
