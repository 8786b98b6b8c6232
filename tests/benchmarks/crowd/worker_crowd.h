// Hundreds of labeling workers for a daemon, without one thread per worker.
//
// A worker acquires tasks, answers all of them at once, and repeats without a pause until it has submitted its labels
// or no tasks are left. Workers share a few connections, because the server limits the streams per connection. Not
// thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace fulcrum::benchmarks {

struct CrowdOptions {
  int port = 0;
  bool streams = false;  ///< one Work stream per worker; otherwise calls
  std::string campaign = {};
  int workers = 500;
  int tasks_a_call = 10;
  std::int64_t labels_each = 0;        ///< 0: until the campaign is over
  std::chrono::seconds wait{0};        ///< maximum time that a call waits for tasks
  std::string request_prefix = "run";  ///< request ids must be unique across crowds
};

struct CrowdResult {
  double seconds = 0;
  double processor_seconds = 0;  ///< of the workers, including their connections
  std::int64_t labels = 0;       ///< acknowledged labels
  /// Sorted waiting times for tasks: the first one of each worker, when all start at once and connect, and the later
  /// ones.
  std::vector<double> first_waits_in_milliseconds = {};
  std::vector<double> waits_in_milliseconds = {};
};

/// Runs the whole crowd. Exits if a call fails.
CrowdResult RunCrowd(const CrowdOptions& options);

/// Runs the crowd in a separate process, so that its threads and memory are not counted for the daemon.
CrowdResult RunCrowdProcess(const CrowdOptions& options);

/// Entry point of that process, given the arguments of main. Returns nothing if they are not those of a crowd.
bool ServeAsCrowd(int count, char** arguments);

/// Returns the value below which `share` of the sorted values lie.
double Percentile(const std::vector<double>& sorted, double share);

}  // namespace fulcrum::benchmarks
