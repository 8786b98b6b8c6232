// Runs a program and returns its output.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fulcrum::testing {

struct ProcessResult {
  int exit_code = -1;  ///< -1 if it was ended by a signal
  int signal = 0;
  std::uint64_t peak_bytes = 0;  ///< peak memory
  double cpu_seconds = 0;        ///< processor time of all threads, which other load of the machine does not prolong
  std::string standard_output;
  std::string standard_error;
};

struct ProcessOptions {
  /// Maximum address space in bytes; 0 means no limit.
  std::uint64_t memory_limit = 0;
  /// Processor time after which SIGXCPU ends it; 0 means no limit.
  std::uint64_t cpu_seconds = 0;
};

/// Runs arguments[0] with the other arguments and empty standard input, and waits for its end.
ProcessResult RunProcess(const std::vector<std::string>& arguments, const ProcessOptions& options = {});

}  // namespace fulcrum::testing
