#include "pipeline/campaign/yaml_message.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/message.h>

#include <cmath>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/campaign/yaml_scalar.h"

namespace fulcrum::pipeline {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

std::vector<std::string> FieldNames(const Descriptor& descriptor) {
  std::vector<std::string> names;
  for (int i = 0; i < descriptor.field_count(); ++i) names.push_back(descriptor.field(i)->name());
  return names;
}

std::string Join(const std::string& path, const std::string& name) {
  return path.empty() ? name : absl::StrCat(path, ".", name);
}

bool IsDuration(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE &&
         field.message_type() == google::protobuf::Duration::descriptor();
}

void ReadDuration(const YAML::Node& node, const std::string& path, SpecProblems& problems, Message& message) {
  if (const auto value = YamlDuration(node, path, problems)) {
    google::protobuf::Duration duration;
    duration.set_seconds(value->seconds);
    duration.set_nanos(value->nanoseconds);
    message.CopyFrom(duration);
  }
}

void ReadSubmessage(const FieldDescriptor& field, const YAML::Node& node, const std::string& path,
                    SpecProblems& problems, Message& value) {
  if (IsDuration(field)) {
    ReadDuration(node, path, problems, value);
  } else {
    ReadYamlMessage(node, path, problems, value);
  }
}

/// Sets a field, or adds to it where it is repeated, for each type that a field can have.
void ReadOne(const FieldDescriptor& field, const YAML::Node& node, const std::string& path, SpecProblems& problems,
             Message& message) {
  const Reflection& reflection = *message.GetReflection();
  const bool many = field.is_repeated();
  const auto store = [&](const auto& value, auto set, auto add) {
    if (!value) return;
    many ? (reflection.*add)(&message, &field, *value) : (reflection.*set)(&message, &field, *value);
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return store(YamlText(node, path, problems), &Reflection::SetString, &Reflection::AddString);
    case FieldDescriptor::CPPTYPE_INT32:
      return store(YamlInteger<std::int32_t>(node, path, problems), &Reflection::SetInt32, &Reflection::AddInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return store(YamlInteger<std::int64_t>(node, path, problems), &Reflection::SetInt64, &Reflection::AddInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return store(YamlInteger<std::uint32_t>(node, path, problems), &Reflection::SetUInt32, &Reflection::AddUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return store(YamlInteger<std::uint64_t>(node, path, problems), &Reflection::SetUInt64, &Reflection::AddUInt64);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return store(YamlNumber(node, path, problems), &Reflection::SetDouble, &Reflection::AddDouble);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return store(YamlNumber(node, path, problems), &Reflection::SetFloat, &Reflection::AddFloat);
    case FieldDescriptor::CPPTYPE_BOOL:
      return store(YamlTruth(node, path, problems), &Reflection::SetBool, &Reflection::AddBool);
    case FieldDescriptor::CPPTYPE_ENUM:
      return store(YamlEnumValue(*field.enum_type(), node, path, problems), &Reflection::SetEnumValue,
                   &Reflection::AddEnumValue);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ReadSubmessage(
          field, node, path, problems,
          *(many ? reflection.AddMessage(&message, &field) : reflection.MutableMessage(&message, &field)));
  }
}

void ReadField(const FieldDescriptor& field, const YAML::Node& node, const std::string& path, SpecProblems& problems,
               Message& message) {
  if (!field.is_repeated()) return ReadOne(field, node, path, problems, message);
  if (!node.IsSequence()) {
    problems.Add(node, path, absl::StrCat("is ", DescribeNode(node), "; it must be a list, such as [a, b]"));
    return;
  }
  for (std::size_t i = 0; i < node.size(); ++i) {
    ReadOne(field, node[i], absl::StrCat(path, "[", i, "]"), problems, message);
  }
}

}  // namespace

void ReadYamlMessage(const YAML::Node& node, const std::string& path, SpecProblems& problems, Message& message) {
  if (!node.IsMap()) {
    problems.Add(node, path, absl::StrCat("is ", DescribeNode(node), "; it must be a map of 'name: value' fields"));
    return;
  }
  std::map<std::string, int> line_of_name;
  for (const auto& entry : node) {
    const std::string name = entry.first.IsScalar() ? entry.first.Scalar() : "?";
    const int line = entry.first.Mark().line + 1;
    const auto [first, is_new] = line_of_name.emplace(name, line);
    const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
    if (field == nullptr) {
      problems.Add(entry.first, Join(path, name), DescribeUnknownField(name, FieldNames(*message.GetDescriptor())));
    } else if (!is_new) {
      problems.Add(entry.first, Join(path, name),
                   absl::StrCat("is given a second time, first in line ", first->second, "; remove one of them"));
    } else {
      ReadField(*field, entry.second, Join(path, name), problems, message);
    }
  }
}

}  // namespace fulcrum::pipeline
