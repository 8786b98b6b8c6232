// Messages as protobuf JSON, for programs that read what a command prints. Stateless and thread-safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace fulcrum::pipeline {

/// Field names as in the .proto files, 64-bit integers as strings, as protobuf JSON has them; zeros are there too. Over
/// several lines, or on one.
absl::StatusOr<std::string> JsonText(const google::protobuf::Message& message, bool one_line);

}  // namespace fulcrum::pipeline
