// Single YAML values as the types that protobuf fields have; what they cannot be read as is a problem.
//
// Every function gives nothing where it has added a problem. Stateless and thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "pipeline/spec_reader.h"

namespace google::protobuf {
class EnumDescriptor;
}  // namespace google::protobuf

namespace fulcrum::pipeline {

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
