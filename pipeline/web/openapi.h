// The API as JSON over HTTP, described for tools: an OpenAPI 3.1 document made from the .proto files and their
// comments.
//
// A pure function; thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace fulcrum::pipeline {

/// `descriptors` is a serialised google.protobuf.FileDescriptorSet with comments. Streams of requests are left out:
/// they need gRPC. Empty if the descriptors cannot be read.
std::string OpenApiDocument(std::string_view descriptors, const std::string& version);

}  // namespace fulcrum::pipeline
