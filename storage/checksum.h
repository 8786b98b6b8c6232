// FNV-1a, 64 bits: tells content apart and finds damage; it is no protection against forgery. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace fulcrum::storage {

class Checksum {
 public:
  void Add(absl::string_view bytes) {
    for (const char byte : bytes) value_ = (value_ ^ static_cast<unsigned char>(byte)) * 1099511628211ULL;
  }
  std::uint64_t value() const { return value_; }
  /// "fnv1a:00c0ffee00c0ffee"
  std::string ToText() const;

 private:
  std::uint64_t value_ = 14695981039346656037ULL;
};

/// Of a whole file, read in pieces. NotFound where there is none.
absl::StatusOr<std::string> ChecksumOfFile(const std::string& path);

}  // namespace fulcrum::storage
