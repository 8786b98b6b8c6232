// A folder of a test's own that goes away with it.
#pragma once

#include <string>

namespace fulcrum::testing {

class TemporaryDirectory {
 public:
  TemporaryDirectory();
  /// Inside a folder of the caller's choice.
  explicit TemporaryDirectory(const std::string& parent);
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }
  /// Path of a file inside.
  std::string File(const std::string& name) const { return path_ + "/" + name; }
  /// Writes a file inside and returns its path.
  std::string Write(const std::string& name, const std::string& content) const;

 private:
  std::string path_;
};

}  // namespace fulcrum::testing
