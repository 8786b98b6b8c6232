#include "pipeline/campaign/yaml_scalar.h"

#include <google/protobuf/descriptor.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "pipeline/duration_text.h"
#include "pipeline/nearest_name.h"
#include "stages/ingest/number_text.h"

namespace fulcrum::pipeline {
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
  const std::optional<double> value = node.IsScalar() ? ingest::ParseNumber(node.Scalar()) : std::nullopt;
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
  for (const EnumName& name : EnumNames(type)) {
    if (node.IsScalar() && node.Scalar() == name.text) return name.number;
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
