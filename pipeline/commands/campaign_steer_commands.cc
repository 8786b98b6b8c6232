// `fulcrum campaign list|get|start|pause|resume|stop|retrain|delete`: one call each.

#include <memory>

#include "absl/strings/str_cat.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/client/campaign_calls.h"
#include "pipeline/client/campaign_text.h"
#include "pipeline/client/printable_text.h"
#include "pipeline/commands/campaign_commands.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

using CampaignMethod = absl::StatusOr<v1::Campaign> (CampaignCalls::*)(const std::string&);

absl::Status Steer(const CampaignOptions& options, CampaignMethod method) {
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.connection));
  CampaignCalls calls(connection);
  FULCRUM_ASSIGN_OR_RETURN(const v1::Campaign campaign, (calls.*method)(options.name));
  return PrintCampaign(options, campaign);
}

Command SteerCommand(std::string name, std::string summary, CampaignMethod method) {
  const auto add = [method](CLI::App& app) -> CommandRun {
    auto options = std::make_shared<CampaignOptions>();
    AddCampaignName(app, *options);
    AddCampaignOptions(app, *options);
    return [options, method] { return Steer(*options, method); };
  };
  return {std::move(name), "Steer", std::move(summary), add};
}

absl::Status List(const CampaignOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.connection));
  FULCRUM_ASSIGN_OR_RETURN(const v1::ListCampaignsResponse campaigns, CampaignCalls(connection).ListAll());
  return PrintAnswer(options, CampaignTable(campaigns), campaigns);
}

CommandRun AddList(CLI::App& app) {
  auto options = std::make_shared<CampaignOptions>();
  AddCampaignOptions(app, *options);
  return [options] { return List(*options); };
}

absl::Status Delete(const CampaignOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.connection));
  FULCRUM_ASSIGN_OR_RETURN(const v1::DeleteCampaignResponse response, CampaignCalls(connection).Delete(options.name));
  return PrintAnswer(
      options, absl::StrCat("deleted; its folder is now ", PrintableLine(response.trash_folder()), " on the server\n"),
      response);
}

CommandRun AddDelete(CLI::App& app) {
  auto options = std::make_shared<CampaignOptions>();
  AddCampaignName(app, *options);
  AddCampaignOptions(app, *options);
  return [options] { return Delete(*options); };
}

}  // namespace

Command CampaignListCommand() {
  return {"list", "Look", "List all campaigns", AddList};
}

Command CampaignGetCommand() {
  Command command = SteerCommand("get", "Show one campaign", &CampaignCalls::Get);
  command.group = "Look";
  return command;
}

Command CampaignStartCommand() {
  return SteerCommand("start", "Select the first batch, or go on after a failure", &CampaignCalls::Start);
}

Command CampaignPauseCommand() {
  return SteerCommand("pause", "Offer no more tasks; labels are still taken", &CampaignCalls::Pause);
}

Command CampaignResumeCommand() {
  return SteerCommand("resume", "Go on after a pause", &CampaignCalls::Resume);
}

Command CampaignStopCommand() {
  return SteerCommand("stop", "End a campaign for good; its results stay", &CampaignCalls::Stop);
}

Command CampaignRetrainCommand() {
  return SteerCommand("retrain", "Let the next round train from nothing instead of from the last model",
                      &CampaignCalls::Retrain);
}

Command CampaignDeleteCommand() {
  return {"delete", "Steer", "Move a campaign that does not run to the server's trash folder", AddDelete};
}

}  // namespace fulcrum::pipeline
