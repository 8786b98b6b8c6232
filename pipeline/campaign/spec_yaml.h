// A campaign's YAML file, read into the CampaignSpec that it maps onto one to one.
//
// The fields are those of campaign_spec.proto under the same names, found by reflection: a field added there is known
// here. Durations are written like "90s" or "1h30m", enumerations in small letters without their prefix. Whether the
// values make sense together is for the server to say. Thread-safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace fulcrum::v1 {
class CampaignSpec;
}  // namespace fulcrum::v1

namespace fulcrum::pipeline {

/// InvalidArgument with everything that is wrong: unknown and repeated fields, wrong types, bad durations and
/// enumerations, each with its line and path. `file_name` is for messages.
absl::StatusOr<v1::CampaignSpec> ParseCampaignYaml(const std::string& text, const std::string& file_name);

/// The same from a file. InvalidArgument where it cannot be read.
absl::StatusOr<v1::CampaignSpec> LoadCampaignYaml(const std::string& path);

}  // namespace fulcrum::pipeline
