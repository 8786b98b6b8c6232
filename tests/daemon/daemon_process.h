// `fulcrum serve` as a separate process that a test can query, limit, stop and kill.
//
// The port stays the same across restarts, so that workers can reconnect. The log is JSON and is read line by line
// while it is written. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/daemon/line_reader.h"

namespace fulcrum::testing {

class DaemonProcess {
 public:
  using Environment = std::map<std::string, std::string>;

  /// `arguments` follow "serve" and the listen address; `environment` is added to the environment of this process.
  explicit DaemonProcess(std::vector<std::string> arguments, Environment environment = {});
  /// Kills the process if it is still running.
  ~DaemonProcess();
  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;

  int port() const { return port_; }
  int metrics_port() const { return metrics_port_; }
  pid_t id() const { return process_; }

  /// Starts the process, and returns when it listens.
  void Spawn();
  void Signal(int number) const;
  /// Returns the exit code, or the negative signal number if a signal ended it.
  int Wait();
  void Kill();
  /// Returns whether the process is running.
  bool Lives();
  /// Returns the next log line with this message; null if the process ends first.
  nlohmann::json NextLogLine(const std::string& message);

  /// Sets the limit of open files. Returns false if the system does not allow it.
  bool LimitFiles(std::size_t most) const;
  std::size_t OpenFiles() const;
  /// Returns the resident memory in bytes.
  std::size_t ResidentBytes() const;

 private:
  const std::vector<std::string> arguments_;
  const Environment environment_;
  const int port_;
  int metrics_port_ = 0;
  pid_t process_ = -1;
  std::unique_ptr<LineReader> log_;
};

}  // namespace fulcrum::testing
