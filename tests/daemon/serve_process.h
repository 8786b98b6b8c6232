// `fulcrum serve` as a process of its own: started with a configuration, asked where it listens, signalled, waited for.
//
// Its log is JSON and is read line by line. For one thread.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>

#include "nlohmann/json.hpp"

namespace fulcrum::testing {

class ServeProcess {
 public:
  using Environment = std::map<std::string, std::string>;

  /// Returns when it listens. `config` is the path of a fulcrum.yaml; ports of 0 are fine.
  explicit ServeProcess(const std::string& config, const Environment& environment = {});
  /// Kills it where it still runs.
  ~ServeProcess();
  ServeProcess(const ServeProcess&) = delete;
  ServeProcess& operator=(const ServeProcess&) = delete;

  int port() const { return listening_.value("port", 0); }
  int metrics_port() const { return listening_.value("metrics_port", 0); }
  void Signal(int number) const;
  /// The exit code, or minus the signal that ended it.
  int Wait();
  /// The next line of the log with this message; null at the end of the log.
  nlohmann::json NextLogLine(const std::string& message);

 private:
  pid_t process_ = -1;
  std::FILE* log_ = nullptr;
  nlohmann::json listening_;
};

}  // namespace fulcrum::testing
