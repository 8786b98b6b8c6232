// Where a command's tables and reports go: a file that appears whole or not at all, compressed where its name
// ends in .gz or .zst, or standard output for "-". Not thread-safe.
//
// A command with several outputs calls Finish on all of them, standard output last, and then Commit on all
// of them: what can fail (a full disk) fails before the first one is in place.
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
  /// After Finish: puts the output in its place.
  virtual absl::Status Commit() = 0;
};

/// InvalidArgument where the path cannot be written to.
absl::StatusOr<std::unique_ptr<TextSink>> OpenTextSink(const std::string& path);

// Text from elsewhere (payloads, names, messages) made safe for a terminal, a log and a reply.
//
// What a file holds may have been written by a stranger: control characters in it could move the cursor, change the
// window's title or answer for the person who looks, and a NUL ends a C string. Every message passes through here at
// the edge of the process: when it is printed, logged or returned. Stateless and thread-safe.

/// The text with every control character except line ends and tabs, and every byte that is not UTF-8, written as
/// "\x1b".
std::string PrintableText(std::string_view text);

/// The same on one line: line ends and tabs become spaces.
std::string PrintableLine(std::string_view text);

}  // namespace fulcrum::pipeline
