// A temporary directory that is deleted with the object.
#pragma once

#include <string>

namespace fulcrum::testing {

class TemporaryDirectory {
 public:
  TemporaryDirectory();
  /// Creates the directory inside the given folder.
  explicit TemporaryDirectory(const std::string& parent);
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }
  /// Returns the path of a file in the directory.
  std::string File(const std::string& name) const { return path_ + "/" + name; }
  /// Writes a file into the directory and returns its path.
  std::string Write(const std::string& name, const std::string& content) const;

 private:
  std::string path_;
};

}  // namespace fulcrum::testing
