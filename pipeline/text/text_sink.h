// The output of a command: a file that appears completely or not at all, compressed if its name ends in
// .gz or .zst, or standard output for "-". Not thread-safe.
//
// A command with several outputs calls Finish on all of them, standard output last, and then Commit on all
// of them: errors such as a full disk occur before the first file is in place.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace fulcrum::pipeline {

class TextSink {
 public:
  virtual ~TextSink() = default;
  virtual absl::Status Write(std::string_view text) = 0;
  /// After the last Write.
  virtual absl::Status Finish() = 0;
  /// After Finish: moves the output to its path.
  virtual absl::Status Commit() = 0;
};

/// InvalidArgument if the path cannot be written to.
absl::StatusOr<std::unique_ptr<TextSink>> OpenTextSink(const std::string& path);

// Makes text from outside (payloads, names, messages) safe for a terminal, a log and a reply.
//
// The content of files is not trusted: control characters could move the cursor, change the title of the window or send
// input, and a NUL ends a C string. Every message is escaped here before it is printed, logged or returned. Stateless
// and thread-safe.

/// The text with every control character except line ends and tabs, and every byte that is not UTF-8, written as
/// "\x1b".
std::string PrintableText(std::string_view text);

/// The same on one line: line ends and tabs become spaces.
std::string PrintableLine(std::string_view text);

}  // namespace fulcrum::pipeline
