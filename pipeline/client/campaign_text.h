// Campaigns and what happens in them, as people read it. Stateless and thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/client/server_connection.h"
#include "pipeline/text/spec_reader.h"

namespace fulcrum::v1 {
class Campaign;
class CampaignEvent;
class ListCampaignsResponse;
class ModelTrained;
}  // namespace fulcrum::v1

namespace fulcrum::pipeline {

/// Rows of cells below each other; the first row is the heading. Columns whose cells below it are all numbers are
/// aligned to the right. Widths are counted in characters, not bytes.
std::string TextTable(const std::vector<std::vector<std::string>>& rows);

/// "waiting", "done": the state in small letters.
std::string StateName(const v1::Campaign& campaign);

/// "train", "score": a v1::Stage in small letters.
std::string StageName(int stage);

/// One campaign a line, under a heading.
std::string CampaignTable(const v1::ListCampaignsResponse& campaigns);

/// One campaign, a line a fact.
std::string CampaignDetails(const v1::Campaign& campaign);

/// What a round learned, as part of a line.
std::string ModelText(const v1::ModelTrained& model);

/// One event on a line, with its time, without the line end.
std::string EventLine(const v1::CampaignEvent& event);

}  // namespace fulcrum::pipeline

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

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

namespace fulcrum::v1 {
class CampaignEvent;
}  // namespace fulcrum::v1

namespace fulcrum::pipeline {

class CampaignCalls;

/// Tells `on_event` what happens. OK when the campaign is done, FailedPrecondition with the reason when it failed; a
/// server that is away is waited for as the policy says.
absl::Status WatchToTheEnd(CampaignCalls& calls, const std::string& name, const RetryPolicy& policy,
                           const Timing& timing, const std::function<void(const v1::CampaignEvent&)>& on_event);

// What `fulcrum campaign watch` prints without a terminal: a line per round, and one for each other event.
//
// What a round learned and what it selected become one line. How far its stages are, each label and the turns between
// selecting and waiting are left out: a round has hundreds of them. Not thread-safe.

class WatchLines {
 public:
  /// The lines that are due after this event, with their ends; often none.
  std::string Follow(const v1::CampaignEvent& event);

 private:
  std::string Follow(const v1::CampaignEvent& event, const v1::BatchCommitted& batch);
  std::string Follow(const v1::CampaignEvent& event, const v1::Campaign& campaign);
  /// What a model that no batch followed is worth telling, once.
  std::string TellModel();

  std::optional<v1::CampaignEvent> model_;
  std::string told_state_;
};

// A learning curve drawn with the characters of a terminal. Stateless and thread-safe.

struct PlotPoint {
  double x = 0;
  double y = 0;  ///< a share: 0.93 is shown as 93%
};

struct PlotSize {
  std::size_t width = 60;  ///< columns of the curve itself
  std::size_t height = 8;
};

/// One bar a point, in eighths of a line, from the smallest y to the largest; where there are more points than columns,
/// each column is the mean of its points. `x_name` names the numbers below: "labels". Empty without points.
std::string DrawCurve(const std::vector<PlotPoint>& points, const std::string& x_name, const PlotSize& size = {});

}  // namespace fulcrum::pipeline

namespace fulcrum::v1 {

// What `fulcrum campaign watch` shows on a terminal: how far the round is, and the learning curve so far.
//
// Follow takes events in; Draw gives the picture. Not thread-safe.

class Campaign;
class CampaignEvent;
class ModelTrained;
}  // namespace fulcrum::v1

namespace fulcrum::pipeline {

// Messages as protobuf JSON, for programs that read what a command prints. Stateless and thread-safe.

/// Field names as in the .proto files, 64-bit integers as strings, as protobuf JSON has them; zeros are there too. Over
/// several lines, or on one.
absl::StatusOr<std::string> JsonText(const google::protobuf::Message& message, bool one_line);

// The real clock and real pauses. Stateless and thread-safe.

class StopFlag;

/// Pauses are broken off by the flag, which must outlive the timing.
Timing WallTiming(const StopFlag& stop);

// A campaign's YAML file, read into the CampaignSpec that it maps onto one to one.
//
// The fields are those of campaign_spec.proto under the same names, found by reflection: a field added there is known
// here. Durations are written like "90s" or "1h30m", enumerations in small letters without their prefix. Whether the
// values make sense together is for the server to say. Thread-safe.

// Single YAML values as the types that protobuf fields have; what they cannot be read as is a problem.
//
// Every function gives nothing if it has added a problem. Stateless and thread-safe.

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

// Follows a campaign to its end, across restarts of the server. Not thread-safe.

class WatchScreen {
 public:
  void Follow(const v1::CampaignEvent& event);
  /// Lines of at most `columns` characters. The curve is of accuracy where the campaign measures it, else of the share
  /// of predictions that a round changed.
  std::string Draw(std::size_t columns) const;

 private:
  struct TrainedModel {
    double labels = 0;
    double changed_share = 0;
    double accuracy = -1;  // below zero where it is not measured
  };

  void Follow(const v1::Campaign& campaign);
  void Follow(const v1::ModelTrained& model);
  std::string DrawRound(std::size_t columns) const;
  std::string DrawModels(std::size_t columns) const;

  std::string name_;
  std::string state_;
  std::string reason_;
  std::string doing_;
  std::int64_t round_ = 0;
  std::int64_t round_items_ = 0;
  std::int64_t round_settled_ = 0;
  std::int64_t labels_ = 0;
  std::int64_t labeled_items_ = 0;
  std::map<std::int64_t, TrainedModel> models_;  // by round: a server that was restarted may tell of one twice
};

/// Cuts every line to so many characters, so that none takes two lines of the terminal.
std::string CutLines(const std::string& text, std::size_t columns);

}  // namespace fulcrum::pipeline
