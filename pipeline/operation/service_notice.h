// What the service manager (systemd) is told: ready, stopping, how it is, still alive. Nothing where there is none.
//
// Plain functions over sd_notify, which does nothing unless NOTIFY_SOCKET is set. Thread-safe.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace fulcrum::pipeline {

void NotifyReady();
/// From then on the manager waits for the end of the process as long as `within`, however short its own patience.
void NotifyStopping(std::chrono::milliseconds within);
/// One line for `systemctl status`.
void NotifyStatus(const std::string& text);
/// Feeds the watchdog.
void NotifyAlive();
/// How often the manager wants to hear that the process is alive, or else ends it; nothing where it does not watch.
std::optional<std::chrono::microseconds> WatchdogTime();

}  // namespace fulcrum::pipeline
