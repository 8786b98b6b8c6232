#include "pipeline/client/json_text.h"

#include <google/protobuf/message.h>
#include <google/protobuf/util/json_util.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace fulcrum::pipeline {

absl::StatusOr<std::string> JsonText(const google::protobuf::Message& message, bool one_line) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = !one_line;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(message, &text, options);
  if (!status.ok()) return absl::InternalError(absl::StrCat("the answer cannot be shown as JSON: ", status.ToString()));
  absl::StripTrailingAsciiWhitespace(&text);
  return text + "\n";
}

}  // namespace fulcrum::pipeline
