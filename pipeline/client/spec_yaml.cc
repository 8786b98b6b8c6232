#include <google/protobuf/descriptor.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/message.h>

#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "fulcrum/v1/campaign_spec.pb.h"
#include "pipeline/client/campaign_text.h"
#include "pipeline/text/spec_reader.h"
#include "stages/core/number_text.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {

absl::StatusOr<v1::CampaignSpec> ParseCampaignYaml(const std::string& text, const std::string& file_name) {
  try {
    SpecProblems problems(file_name);
    v1::CampaignSpec spec;
    ReadYamlMessage(YAML::Load(text), "", problems, spec);
    FULCRUM_RETURN_IF_ERROR(problems.ToStatus());
    return spec;
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(file_name, " is not valid YAML: ", error.what()));
  }
}

absl::StatusOr<v1::CampaignSpec> LoadCampaignYaml(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(stream), {});
  if (!stream) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read '", path, "'; name a YAML file that describes the campaign"));
  }
  return ParseCampaignYaml(text, path);
}

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
      // The one number that can be left to the server.
      if (field.full_name() == "fulcrum.v1.LabelingSpec.overlap" && node.IsScalar() && node.Scalar() == "auto") {
        return reflection.SetInt32(&message, &field, 0);
      }
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

namespace {

void MustBe(const std::string& what, const YAML::Node& node, const std::string& path, SpecProblems& problems) {
  problems.Add(node, path, absl::StrCat("is ", DescribeNode(node), "; it must be ", what));
}

struct EnumName {
  std::string text;
  int number = 0;
};

// KernelSpec.Type has the values TYPE_RBF, ...: the prefix is the name of the enumeration, in capitals with '_'.
std::string Prefix(const google::protobuf::EnumDescriptor& type) {
  std::string prefix;
  for (const char letter : type.name()) {
    if (absl::ascii_isupper(letter) && !prefix.empty()) prefix.push_back('_');
    prefix.push_back(absl::ascii_toupper(letter));
  }
  return prefix + "_";
}

std::vector<EnumName> EnumNames(const google::protobuf::EnumDescriptor& type) {
  const std::string prefix = Prefix(type);
  std::vector<EnumName> names;
  for (int i = 0; i < type.value_count(); ++i) {
    // Zero means that nothing was said, which is said by leaving the field out.
    if (type.value(i)->number() == 0) continue;
    names.push_back({absl::AsciiStrToLower(absl::StripPrefix(type.value(i)->name(), prefix)), type.value(i)->number()});
  }
  return names;
}

}  // namespace

std::optional<std::string> YamlText(const YAML::Node& node, const std::string& path, SpecProblems& problems) {
  if (node.IsScalar()) return node.Scalar();
  MustBe("a text", node, path, problems);
  return std::nullopt;
}

std::optional<double> YamlNumber(const YAML::Node& node, const std::string& path, SpecProblems& problems) {
  const std::optional<double> value = node.IsScalar() ? ParseNumber(node.Scalar()) : std::nullopt;
  if (value && std::isfinite(*value)) return value;
  MustBe("a number", node, path, problems);
  return std::nullopt;
}

std::optional<bool> YamlTruth(const YAML::Node& node, const std::string& path, SpecProblems& problems) {
  if (node.IsScalar() && node.Scalar() == "true") return true;
  if (node.IsScalar() && node.Scalar() == "false") return false;
  MustBe("true or false", node, path, problems);
  return std::nullopt;
}

std::optional<YamlTime> YamlDuration(const YAML::Node& node, const std::string& path, SpecProblems& problems) {
  if (auto value = node.IsScalar() ? ParseDurationText(node.Scalar()) : std::nullopt) {
    const std::int64_t seconds = absl::IDivDuration(*value, absl::Seconds(1), &*value);
    return YamlTime{seconds, static_cast<std::int32_t>(absl::ToInt64Nanoseconds(*value))};
  }
  MustBe(kDurationForm, node, path, problems);
  return std::nullopt;
}

std::optional<int> YamlEnumValue(const google::protobuf::EnumDescriptor& type, const YAML::Node& node,
                                 const std::string& path, SpecProblems& problems) {
  std::vector<std::string> texts;
  // "dawid-skene" is "dawid_skene".
  const std::string text = node.IsScalar() ? absl::StrReplaceAll(node.Scalar(), {{"-", "_"}}) : "";
  for (const EnumName& name : EnumNames(type)) {
    if (text == name.text) return name.number;
    texts.push_back(name.text);
  }
  const std::string nearest = node.IsScalar() ? NearestName(node.Scalar(), texts) : "";
  MustBe(absl::StrCat("one of ", absl::StrJoin(texts, ", "),
                      nearest.empty() ? "" : absl::StrCat("; did you mean '", nearest, "'?")),
         node, path, problems);
  return std::nullopt;
}

template <typename Integer>
std::optional<Integer> YamlInteger(const YAML::Node& node, const std::string& path, SpecProblems& problems) {
  Integer value = 0;
  const std::string text = node.IsScalar() ? node.Scalar() : "";
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (!text.empty() && error == std::errc() && end == text.data() + text.size()) return value;
  MustBe(absl::StrCat("a whole number from ", std::numeric_limits<Integer>::min(), " to ",
                      std::numeric_limits<Integer>::max()),
         node, path, problems);
  return std::nullopt;
}

template std::optional<std::int32_t> YamlInteger(const YAML::Node&, const std::string&, SpecProblems&);
template std::optional<std::int64_t> YamlInteger(const YAML::Node&, const std::string&, SpecProblems&);
template std::optional<std::uint32_t> YamlInteger(const YAML::Node&, const std::string&, SpecProblems&);
template std::optional<std::uint64_t> YamlInteger(const YAML::Node&, const std::string&, SpecProblems&);

}  // namespace fulcrum::pipeline
