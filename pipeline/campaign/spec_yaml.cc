#include "pipeline/campaign/spec_yaml.h"

#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "fulcrum/v1/campaign_spec.pb.h"
#include "pipeline/campaign/yaml_message.h"
#include "pipeline/spec_reader.h"
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
    return absl::InvalidArgumentError(absl::StrCat(file_name, " is no YAML: ", error.what()));
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

}  // namespace fulcrum::pipeline
