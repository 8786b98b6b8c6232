// `fulcrum serve` as a separate process that a test can query, limit, stop and kill.
//
// The port stays the same across restarts, so that workers can reconnect. The log is JSON and is read line by line
// while it is written. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "nlohmann/json.hpp"

namespace fulcrum::testing {

/// Reads the lines that a process writes to a pipe in the background, so that the process never blocks on a full pipe.
class LineReader {
 public:
  /// Takes ownership of the descriptor.
  explicit LineReader(int descriptor);
  /// Waits until all writers have closed their end.
  ~LineReader() { Release(); }
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  /// Waits for the next line; returns nothing at the end.
  std::optional<std::string> Next();
  /// Reads no more until Release, as a reader that hangs; returns when nothing more fits into the pipe.
  void Hold();
  void Release();

 private:
  void Read(int descriptor);

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::string> lines_;
  bool over_ = false;
  bool hold_ = false;
  bool holds_ = false;
  const int descriptor_;
  std::jthread thread_;  // last, because it uses all other members
};

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
  /// Only starts it. Its log can be read up to the line "listening", which AwaitListening reads.
  void Launch();
  void AwaitListening();
  void Signal(int number) const;
  /// Returns the exit code, or the negative signal number if a signal ended it.
  int Wait();
  void Kill();
  /// Returns whether the process is running.
  bool Lives();
  /// Returns the next log line with this message; null if the process ends first.
  nlohmann::json NextLogLine(const std::string& message);
  /// Lets every write to the log block until ReleaseLog.
  void HoldLog() const { log_->Hold(); }
  void ReleaseLog() const { log_->Release(); }

  /// Sets the limit of open files. Returns false if the system does not allow it.
  bool LimitFiles(std::size_t most) const;
  std::size_t OpenFiles() const;
  /// Returns the resident memory in bytes.
  std::size_t ResidentBytes() const;
  /// Returns the largest resident memory since ForgetPeak, or since the start.
  std::size_t PeakResidentBytes() const;
  void ForgetPeak() const;

 private:
  const std::vector<std::string> arguments_;
  const Environment environment_;
  const int port_;
  int metrics_port_ = 0;
  pid_t process_ = -1;
  std::unique_ptr<LineReader> log_;
};

}  // namespace fulcrum::testing
