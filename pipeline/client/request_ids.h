// Request ids that no other worker, and no other start of this one, ever makes.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <string>

namespace fulcrum::pipeline {

class RequestIds {
 public:
  /// With a prefix of 96 random bits from the system.
  RequestIds();

  /// "2f0c...-1", "2f0c...-2", ...
  std::string Next();

 private:
  std::string prefix_;
  std::uint64_t count_ = 0;
};

}  // namespace fulcrum::pipeline
