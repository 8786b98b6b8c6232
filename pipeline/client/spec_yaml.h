// A campaign's YAML file, read into the CampaignSpec that it maps onto one to one.
//
// The fields are those of campaign_spec.proto under the same names, found by reflection: a field added there is known
// here. Durations are written like "90s" or "1h30m", enumerations in small letters without their prefix. Whether the
// values make sense together is for the server to say. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "pipeline/text/spec_reader.h"

namespace fulcrum::v1 {
class CampaignSpec;
}  // namespace fulcrum::v1

namespace fulcrum::pipeline {

/// InvalidArgument with everything that is wrong: unknown and repeated fields, wrong types, bad durations and
/// enumerations, each with its line and path. `file_name` is for messages.
absl::StatusOr<v1::CampaignSpec> ParseCampaignYaml(const std::string& text, const std::string& file_name);

/// The same from a file. InvalidArgument if it cannot be read.
absl::StatusOr<v1::CampaignSpec> LoadCampaignYaml(const std::string& path);

}  // namespace fulcrum::pipeline

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace fulcrum::pipeline {

// A protobuf message from a YAML map, field by field, by reflection.
//
// Knows nothing of campaigns. A map is a message, a list a repeated field, text like "1h30m" a Duration, a name in
// small letters an enumeration's value. Stateless and thread-safe.

/// Sets the fields that the map has; what is wrong goes to `problems`, and reading goes on. `path` names the map in
/// messages; empty for the whole file.
void ReadYamlMessage(const YAML::Node& node, const std::string& path, SpecProblems& problems,
                     google::protobuf::Message& message);

}  // namespace fulcrum::pipeline

namespace google::protobuf {
class EnumDescriptor;
}  // namespace google::protobuf

namespace fulcrum::pipeline {

// Single YAML values as the types that protobuf fields have; what they cannot be read as is a problem.
//
// Every function gives nothing where it has added a problem. Stateless and thread-safe.

/// As google.protobuf.Duration has it.
struct YamlTime {
  std::int64_t seconds = 0;
  std::int32_t nanoseconds = 0;
};

std::optional<std::string> YamlText(const YAML::Node& node, const std::string& path, SpecProblems& problems);
/// A finite number.
std::optional<double> YamlNumber(const YAML::Node& node, const std::string& path, SpecProblems& problems);
/// "true" or "false".
std::optional<bool> YamlTruth(const YAML::Node& node, const std::string& path, SpecProblems& problems);
/// "90s", "10m", "2h", "1h30m", "500ms"; not below zero.
std::optional<YamlTime> YamlDuration(const YAML::Node& node, const std::string& path, SpecProblems& problems);
/// The number of the value whose name, without the prefix that all values share and in small letters, is the text.
std::optional<int> YamlEnumValue(const google::protobuf::EnumDescriptor& type, const YAML::Node& node,
                                 const std::string& path, SpecProblems& problems);
/// A whole number that fits: std::int32_t, std::int64_t, std::uint32_t or std::uint64_t.
template <typename Integer>
std::optional<Integer> YamlInteger(const YAML::Node& node, const std::string& path, SpecProblems& problems);

}  // namespace fulcrum::pipeline
