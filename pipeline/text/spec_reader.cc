#include "pipeline/text/spec_reader.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "stages/core/number_text.h"

namespace fulcrum::pipeline {
namespace {

std::string DescribeRange(const NumberRange& range) {
  const std::string from = absl::StrFormat("%s %g", range.above_low ? "above" : "at least", range.low);
  return std::isfinite(range.high) ? absl::StrFormat("%s and at most %g", from, range.high) : from;
}

bool IsInside(double value, const NumberRange& range) {
  return value <= range.high && (range.above_low ? value > range.low : value >= range.low);
}

}  // namespace

std::string DescribeNode(const YAML::Node& node) {
  if (node.IsScalar()) return absl::StrCat("'", node.Scalar(), "'");
  if (node.IsSequence()) return "a list";
  return node.IsMap() ? "a map" : "nothing";
}

std::string DescribeUnknownField(const std::string& name, const std::vector<std::string>& known) {
  const std::string nearest = NearestName(name, known);
  return nearest.empty() ? absl::StrCat("there is no such field; the fields here are ", absl::StrJoin(known, ", "))
                         : absl::StrCat("there is no such field; did you mean '", nearest, "'?");
}

void SpecProblems::Add(const YAML::Node& at, const std::string& path, const std::string& what) {
  const int line = at.IsDefined() ? at.Mark().line + 1 : 0;
  const std::string place = line > 0 ? absl::StrCat("line ", line, ": ") : "";
  problems_.push_back(absl::StrCat(place, path.empty() ? "the file" : path, ": ", what));
}

absl::Status SpecProblems::ToStatus() const {
  if (problems_.empty()) return absl::OkStatus();
  const std::string count = problems_.size() == 1 ? "1 problem" : absl::StrCat(problems_.size(), " problems");
  return absl::InvalidArgumentError(absl::StrCat(file_, " has ", count, ":\n  ", absl::StrJoin(problems_, "\n  ")));
}

SpecFields::SpecFields(SpecProblems& problems, const YAML::Node& node, std::string path)
    : problems_(problems), node_(node), path_(std::move(path)) {
  if (node_.IsMap()) return;
  problems_.Add(node_, path_, absl::StrCat("is ", DescribeNode(node_), "; it must be a map of 'name: value' fields"));
  node_ = YAML::Node(YAML::NodeType::Map);
}

YAML::Node SpecFields::Take(const std::string& name) {
  known_.insert(name);
  // The const lookup does not add the name to the map.
  const YAML::Node& map = node_;
  return map[name];
}

void SpecFields::Problem(const std::string& name, const std::string& what) {
  const YAML::Node field = Take(name);
  problems_.Add(field.IsDefined() ? field : node_, PathOf(name), what);
}

std::string SpecFields::Text(const std::string& name, const std::string& fallback) {
  const YAML::Node field = Take(name);
  if (!field.IsDefined()) return fallback;
  if (field.IsScalar()) return field.Scalar();
  Problem(name, absl::StrCat("is ", DescribeNode(field), "; it must be a text"));
  return fallback;
}

std::string SpecFields::RequiredText(const std::string& name) {
  const YAML::Node field = Take(name);
  const std::string text = Text(name, "");
  if (!field.IsDefined()) {
    Problem(name, "is missing; give it a text");
  } else if (field.IsScalar() && text.empty()) {
    Problem(name, "is empty; give it a text");
  }
  return text;
}

std::optional<double> SpecFields::OptionalNumber(const std::string& name, const NumberRange& range) {
  const YAML::Node field = Take(name);
  if (!field.IsDefined()) return std::nullopt;
  const std::optional<double> value = field.IsScalar() ? ParseNumber(field.Scalar()) : std::nullopt;
  if (value && IsInside(*value, range)) return value;
  Problem(name, absl::StrCat("is ", DescribeNode(field), "; it must be a number ", DescribeRange(range)));
  return std::nullopt;
}

double SpecFields::Number(const std::string& name, double fallback, const NumberRange& range) {
  return OptionalNumber(name, range).value_or(fallback);
}

std::size_t SpecFields::Count(const std::string& name, std::size_t fallback, std::size_t low, std::size_t high) {
  const YAML::Node field = Take(name);
  if (!field.IsDefined()) return fallback;
  const std::optional<double> value = field.IsScalar() ? ParseNumber(field.Scalar()) : std::nullopt;
  const NumberRange range{static_cast<double>(low), static_cast<double>(high)};
  if (value && IsInside(*value, range) && std::floor(*value) == *value) return static_cast<std::size_t>(*value);
  Problem(name, absl::StrCat("is ", DescribeNode(field), "; it must be a whole number at least ", low, " and at most ",
                             high));
  return fallback;
}

std::size_t SpecFields::Choice(const std::string& name, const std::vector<std::string>& names, std::size_t fallback) {
  const std::string text = Text(name, names[fallback]);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == text) return i;
  }
  Problem(name, absl::StrCat("is '", text, "'; it must be one of ", absl::StrJoin(names, ", ")));
  return fallback;
}

void SpecFields::ForEach(const std::string& name,
                         const std::function<void(const YAML::Node&, const std::string&)>& visit) {
  const YAML::Node field = Take(name);
  if (!field.IsDefined()) return;
  if (!field.IsSequence()) {
    Problem(name, absl::StrCat("is ", DescribeNode(field), "; it must be a list"));
    return;
  }
  for (std::size_t i = 0; i < field.size(); ++i) visit(field[i], absl::StrCat(PathOf(name), "[", i, "]"));
}

void SpecFields::ForEachNamed(
    const std::string& name,
    const std::function<void(const std::string&, const YAML::Node&, const std::string&)>& visit) {
  const YAML::Node field = Take(name);
  if (!field.IsDefined()) return;
  if (!field.IsMap()) {
    Problem(name, absl::StrCat("is ", DescribeNode(field), "; it must be a map of 'name: value' fields"));
    return;
  }
  for (const auto& entry : field) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "?";
    visit(key, entry.second, absl::StrCat(PathOf(name), ".", key));
  }
}

void SpecFields::RejectOthers() {
  const std::vector<std::string> known(known_.begin(), known_.end());
  for (const auto& entry : node_) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "?";
    if (known_.contains(key)) continue;
    problems_.Add(entry.first, PathOf(key), DescribeUnknownField(key, known));
  }
}

std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> distance(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        distance[i][j] = i + j;
        continue;
      }
      const std::size_t replaced = distance[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      distance[i][j] = std::min({replaced, distance[i - 1][j] + 1, distance[i][j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        distance[i][j] = std::min(distance[i][j], distance[i - 2][j - 2] + 1);
      }
    }
  }
  return distance[a.size()][b.size()];
}

std::string NearestName(std::string_view word, const std::vector<std::string>& names) {
  std::string nearest;
  // A third of the letters wrong is a typo; more is another word.
  std::size_t smallest = word.size() / 3 + 1;
  for (const std::string& name : names) {
    if (const std::size_t distance = EditDistance(word, name); distance < smallest) {
      smallest = distance;
      nearest = name;
    }
  }
  return nearest;
}

namespace {

constexpr std::int64_t kMostSeconds = 315'576'000'000;  // what google.protobuf.Duration can hold

}  // namespace

std::optional<absl::Duration> ParseDurationText(absl::string_view text) {
  absl::Duration duration;
  if (!absl::ParseDuration(std::string(text), &duration)) return std::nullopt;
  if (duration < absl::ZeroDuration() || duration > absl::Seconds(kMostSeconds)) return std::nullopt;
  return duration;
}

}  // namespace fulcrum::pipeline
