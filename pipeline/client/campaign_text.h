// Campaigns and what happens in them, as people read it. Stateless and thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/client/server_connection.h"

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

namespace fulcrum::pipeline {

// Messages as protobuf JSON, for programs that read what a command prints. Stateless and thread-safe.

/// Field names as in the .proto files, 64-bit integers as strings, as protobuf JSON has them; zeros are there too. Over
/// several lines, or on one.
absl::StatusOr<std::string> JsonText(const google::protobuf::Message& message, bool one_line);

// The real clock and real pauses. Stateless and thread-safe.

class StopFlag;

/// Pauses are broken off by the flag, which must outlive the timing.
Timing WallTiming(const StopFlag& stop);

}  // namespace fulcrum::pipeline
