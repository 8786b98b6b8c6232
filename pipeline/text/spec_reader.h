// Reads fields of a YAML document and collects what is wrong with them, so that one message lists every problem of a
// file.
//
// SpecFields is one map of the document: fields are read by name, and fields that were not read are unknown
// and reported as problems. Not thread-safe; a SpecProblems must outlive its SpecFields.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "yaml-cpp/yaml.h"

namespace fulcrum::pipeline {

class SpecProblems {
 public:
  explicit SpecProblems(std::string file) : file_(std::move(file)) {}
  /// `path` names the field: "tasks[2].tau".
  void Add(const YAML::Node& at, const std::string& path, const std::string& what);
  bool empty() const { return problems_.empty(); }
  /// InvalidArgument with one line per problem, or OK.
  absl::Status ToStatus() const;

 private:
  std::string file_;
  std::vector<std::string> problems_;
};

/// How the value appears in the file: "'text'", "a list", "a map" or "nothing".
std::string DescribeNode(const YAML::Node& node);

/// Returns the message for a name that is not in `known`, with a suggestion if one is close.
std::string DescribeUnknownField(const std::string& name, const std::vector<std::string>& known);

/// The smallest and largest value a field may have.
struct NumberRange {
  double low = 0;
  double high = 0;
  bool above_low = false;  ///< low itself is not allowed
};

class SpecFields {
 public:
  /// A node that is not a map is a problem and is read as an empty map.
  SpecFields(SpecProblems& problems, const YAML::Node& node, std::string path);

  std::string Text(const std::string& name, const std::string& fallback);
  std::string RequiredText(const std::string& name);
  double Number(const std::string& name, double fallback, const NumberRange& range);
  std::optional<double> OptionalNumber(const std::string& name, const NumberRange& range);
  std::size_t Count(const std::string& name, std::size_t fallback, std::size_t low, std::size_t high);
  /// The position of the field's text in `names`; if it is not one of them, a problem that lists them.
  std::size_t Choice(const std::string& name, const std::vector<std::string>& names, std::size_t fallback);
  /// A field of any type; undefined if it is absent.
  YAML::Node Take(const std::string& name);
  /// Calls `visit` for every element of a list field, with its path. A field that is not a list is a problem.
  void ForEach(const std::string& name, const std::function<void(const YAML::Node&, const std::string& path)>& visit);
  /// Calls `visit` for every name and value of a map field.
  void ForEachNamed(
      const std::string& name,
      const std::function<void(const std::string& key, const YAML::Node&, const std::string& path)>& visit);
  /// Fields that were never read are problems; call it last.
  void RejectOthers();

  std::string PathOf(const std::string& name) const { return path_.empty() ? name : path_ + "." + name; }
  const YAML::Node& node() const { return node_; }
  void Problem(const std::string& name, const std::string& what);

 private:
  SpecProblems& problems_;
  YAML::Node node_;
  std::string path_;
  std::set<std::string> known_;
};

// "Did you mean": the known name that is closest to a mistyped one.

/// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
std::size_t EditDistance(std::string_view a, std::string_view b);

/// The nearest of `names`, or an empty string if none is close enough.
std::string NearestName(std::string_view word, const std::vector<std::string>& names);

// Durations as people write them: "50ms", "90s", "10m", "2h", "1h30m". Stateless and thread-safe.

/// Nothing if the text is not a duration, is negative, or exceeds ten thousand years.
std::optional<absl::Duration> ParseDurationText(absl::string_view text);

/// For messages: the format of a duration.
inline constexpr char kDurationForm[] = "a duration such as 90s, 10m, 2h or 1h30m";

}  // namespace fulcrum::pipeline
