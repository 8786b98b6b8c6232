// A process that the daemon starts, in a process group of its own, and whose last output it keeps.
//
// It is ended when the object goes, and by the kernel if the daemon dies. Used by one thread, on which it is started
// and which outlives it: the death of that thread counts as that of the daemon.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace fulcrum::pipeline {

class LaunchedProcess {
 public:
  /// Between the request to end, SIGTERM, and SIGKILL. Shorter than what deleting a campaign waits for its round.
  static constexpr std::chrono::milliseconds kTimeToEnd{2000};

  /// Runs command[0], searched in PATH, with the rest as its arguments, no input, and the daemon's environment.
  static absl::StatusOr<std::unique_ptr<LaunchedProcess>> Start(const std::vector<std::string>& command);
  ~LaunchedProcess() { Stop(); }
  LaunchedProcess(const LaunchedProcess&) = delete;
  LaunchedProcess& operator=(const LaunchedProcess&) = delete;

  pid_t id() const { return process_; }
  /// Waits up to so long, reading the output. True once the process has ended; others of its group are killed then.
  bool WaitFor(std::chrono::milliseconds time);
  /// Ends the process group: SIGTERM, and SIGKILL if it has not ended in time.
  void Stop();
  /// After the end: "ended with exit code 1" or "was ended by signal 9 (Killed)".
  std::string DescribeEnd() const;
  /// What it wrote to its standard output and error, without the beginning if that is long.
  const std::string& output() const { return tail_; }

 private:
  LaunchedProcess(pid_t process, int output) : process_(process), output_(output) {}
  /// Reads what there is, waiting up to so long for it.
  void ReadOutput(std::chrono::milliseconds time);
  bool HasEnded();

  const pid_t process_;
  int output_;  // -1 after its end
  bool ended_ = false;
  int wait_status_ = 0;
  std::string tail_;
};

}  // namespace fulcrum::pipeline
