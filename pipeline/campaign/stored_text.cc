#include "pipeline/campaign/stored_text.h"

#include <google/protobuf/message.h>
#include <google/protobuf/util/json_util.h>

#include "absl/strings/str_cat.h"

namespace fulcrum::pipeline {

std::string StoredText(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(message, &text, options);
  return status.ok() ? text : std::string();
}

absl::Status ParseStoredText(const std::string& text, google::protobuf::Message& message) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto status = google::protobuf::util::JsonStringToMessage(text, &message, options);
  if (status.ok()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("a ", message.GetTypeName(), " in the campaign's store cannot be read: ",
                                          std::string(status.message()), "; restore a backup"));
}

}  // namespace fulcrum::pipeline
