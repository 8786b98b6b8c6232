// `fulcrum serve` as a process of its own, which a test may question, starve, stop and kill.
//
// It keeps its port for as long as the object lives, however often it is started, so that workers find it again. Its
// log is JSON and is gathered line by line as it is written. For one thread.
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

  /// `arguments` follow "serve" and where it listens; `environment` comes on top of this process's own.
  explicit DaemonProcess(std::vector<std::string> arguments, Environment environment = {});
  /// Kills it where it still runs.
  ~DaemonProcess();
  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;

  int port() const { return port_; }
  int metrics_port() const { return metrics_port_; }
  pid_t id() const { return process_; }

  /// Starts it, and returns when it listens.
  void Spawn();
  void Signal(int number) const;
  /// The exit code, or minus the signal that ended it.
  int Wait();
  void Kill();
  /// Whether it still runs.
  bool Lives();
  /// The next line of the log with this message; null where the process ends before there is one.
  nlohmann::json NextLogLine(const std::string& message);

  /// How many files it may have open from now on. False where the system does not allow that.
  bool LimitFiles(std::size_t most) const;
  std::size_t OpenFiles() const;
  /// Bytes of memory that it has now.
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
