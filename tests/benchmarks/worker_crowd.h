// Hundreds of labeling workers against a daemon, without a thread each.
//
// A worker takes tasks, answers them all at once, and begins again without a pause, until it has given its labels or
// there are no tasks. They share a few connections, since the server bounds the streams of one. Used by one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace fulcrum::benchmarks {

struct CrowdOptions {
  int port = 0;
  bool streams = false;  ///< a Work stream each; otherwise calls
  std::string campaign = {};
  int workers = 500;
  int tasks_a_call = 10;
  std::int64_t labels_each = 0;        ///< 0: until the campaign is over
  std::chrono::seconds wait{0};        ///< how long a call may wait for tasks
  std::string request_prefix = "run";  ///< request ids must not repeat those of another crowd
};

struct CrowdResult {
  double seconds = 0;
  double processor_seconds = 0;  ///< that the workers themselves took, their connections included
  std::int64_t labels = 0;       ///< acknowledged
  /// How long a worker waited for tasks, sorted: the first time of each, which is all at once and before there are
  /// connections, and the times that followed.
  std::vector<double> first_waits_in_milliseconds = {};
  std::vector<double> waits_in_milliseconds = {};
};

/// Runs the whole crowd. Ends the program where a call fails.
CrowdResult RunCrowd(const CrowdOptions& options);

/// The same in a process of its own, as workers are: what they take of threads and memory is not the daemon's.
CrowdResult RunCrowdProcess(const CrowdOptions& options);

/// What that process does, given the arguments of main; nothing where they are not those of a crowd.
bool ServeAsCrowd(int count, char** arguments);

/// Value below which `share` of the sorted values lie.
double Percentile(const std::vector<double>& sorted, double share);

}  // namespace fulcrum::benchmarks
