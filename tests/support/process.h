// Runs a program as a user would and keeps what it said.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fulcrum::testing {

struct ProcessResult {
  int exit_code = -1;  ///< -1 where a signal ended it
  int signal = 0;
  std::uint64_t peak_bytes = 0;  ///< the most memory it had
  std::string standard_output;
  std::string standard_error;
};

struct ProcessOptions {
  /// Largest address space in bytes; 0 is no limit.
  std::uint64_t memory_limit = 0;
};

/// Runs arguments[0] with the others, nothing on its standard input, and waits for its end.
ProcessResult RunProcess(const std::vector<std::string>& arguments, const ProcessOptions& options = {});

}  // namespace fulcrum::testing
