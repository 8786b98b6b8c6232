// `fulcrum serve` as a process of its own, which a test may starve and kill.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace fulcrum::testing {

/// A port of the loopback that nobody had a moment ago.
int FreePort();

class DaemonProcess {
 public:
  /// `arguments` follow "serve --metrics off --listen 127.0.0.1:PORT". What it says goes to `log`.
  DaemonProcess(std::vector<std::string> arguments, std::string log);
  /// Kills it.
  ~DaemonProcess();
  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;

  int port() const { return port_; }
  pid_t id() const { return process_; }

  void Spawn();
  void Kill();
  /// Whether it still runs.
  bool Lives();
  /// How many files it may have open from now on. False where the system does not allow that.
  bool LimitFiles(std::size_t most) const;
  std::size_t OpenFiles() const;
  /// Bytes of memory that it has now.
  std::size_t ResidentBytes() const;

 private:
  const int port_;
  const std::vector<std::string> arguments_;
  const std::string log_;
  pid_t process_ = -1;
};

}  // namespace fulcrum::testing
