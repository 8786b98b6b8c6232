// What a worker did, for the line it ends with. A plain value.
#pragma once

#include <cstdint>
#include <string>

namespace fulcrum::pipeline {

struct WorkSummary {
  std::uint64_t acquired = 0;
  std::uint64_t accepted = 0;  ///< labels that are on the server's disk
  std::uint64_t late = 0;      ///< of those, after their lease had ended
  std::uint64_t refused = 0;
  std::string last_refusal = {};
  std::uint64_t skipped = 0;
  std::uint64_t undone = 0;
  std::uint64_t released = 0;
  std::uint64_t lost = 0;      ///< leases that ended before there was an answer
  std::uint64_t repeated = 0;  ///< calls sent again because the server was away
};

/// "12 labels accepted (1 late), 0 refused, 2 skipped", and what else is not zero.
std::string DescribeWork(const WorkSummary& summary);

}  // namespace fulcrum::pipeline
