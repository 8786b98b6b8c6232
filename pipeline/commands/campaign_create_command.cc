// `fulcrum campaign create FILE`: a campaign from its YAML file.

#include <memory>
#include <string>

#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/campaign/spec_yaml.h"
#include "pipeline/client/campaign_calls.h"
#include "pipeline/commands/campaign_commands.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

constexpr char kFooter[] =
    R"(The file has the fields of CampaignSpec in proto/fulcrum/v1/campaign_spec.proto, which explains each:
  name: digits
  pool: {sources: [digits.parquet], id_column: image}
  classes: ["3", "5"]
  question: Which digit is this?
  selection: {strategy: dbalevs, batch: 10, kernel: {type: rbf, sigma: 1}}
  labeling: {lease_time: 10m}
  stop: {labels: 200, accuracy: {sources: [held_out.parquet], target: 0.97}}
  seed: 1
Everything that is wrong with it is reported at once. Paths are paths on the server.)";

struct CreateOptions {
  CampaignOptions campaign = {};
  std::string file = {};
};

absl::Status Create(const CreateOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(const v1::CampaignSpec spec, LoadCampaignYaml(options.file));
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.campaign.connection));
  FULCRUM_ASSIGN_OR_RETURN(const v1::Campaign campaign, CampaignCalls(connection).Create(spec));
  return PrintCampaign(options.campaign, campaign);
}

CommandRun AddCreate(CLI::App& app) {
  auto options = std::make_shared<CreateOptions>();
  app.add_option("file", options->file, "YAML file that describes the campaign")->type_name("")->required();
  AddCampaignOptions(app, options->campaign);
  app.footer(kFooter);
  return [options] { return Create(*options); };
}

}  // namespace

Command CampaignCreateCommand() {
  return {"create", "Steer", "Make a campaign from a YAML file; 'start' runs it", AddCreate};
}

}  // namespace fulcrum::pipeline
