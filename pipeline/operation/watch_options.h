// How the daemon lets itself be watched. A plain value.
#pragma once

#include <chrono>
#include <string>

namespace fulcrum::pipeline {

struct WatchOptions {
  std::string address = {};  ///< HOST:PORT of /metrics, /healthz and /readyz; empty: none
  bool may_fail = false;     ///< a port that is taken is a warning: nobody asked for this one
  /// Between signs of life; a third of the watchdog's time where a service manager asks for them more often.
  std::chrono::milliseconds pulse{5'000};
};

}  // namespace fulcrum::pipeline
