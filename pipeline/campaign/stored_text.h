// Messages as text in a campaign's store: protobuf JSON, which older and newer programs and people can read.
//
// Stateless and thread-safe.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace fulcrum::pipeline {

std::string StoredText(const google::protobuf::Message& message);

/// Fields that this program does not know are passed over. DataLoss if the text is no such message.
absl::Status ParseStoredText(const std::string& text, google::protobuf::Message& message);

}  // namespace fulcrum::pipeline
