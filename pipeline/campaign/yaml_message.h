// A protobuf message from a YAML map, field by field, by reflection.
//
// Knows nothing of campaigns. A map is a message, a list a repeated field, text like "1h30m" a Duration, a name in
// small letters an enumeration's value. Stateless and thread-safe.
#pragma once

#include <string>

#include "pipeline/spec_reader.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace fulcrum::pipeline {

/// Sets the fields that the map has; what is wrong goes to `problems`, and reading goes on. `path` names the map in
/// messages; empty for the whole file.
void ReadYamlMessage(const YAML::Node& node, const std::string& path, SpecProblems& problems,
                     google::protobuf::Message& message);

}  // namespace fulcrum::pipeline
