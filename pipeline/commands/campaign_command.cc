// `fulcrum campaign ...`: everything that steers a campaign on a server.

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/client/campaign_text.h"
#include "pipeline/client/json_text.h"
#include "pipeline/commands/campaign_commands.h"
#include "pipeline/commands/command_registry.h"
#include "pipeline/commands/connection_options.h"
#include "pipeline/exit_codes.h"
#include "pipeline/text_sink.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

constexpr char kFooter[] =
    R"(A campaign is a pool, a question with its classes, and rules for spending labels, kept and run by
'fulcrum serve'. Workers ('fulcrum work', or any client of fulcrum.v1) give the labels.

Example:
  fulcrum campaign create digits.yaml
  fulcrum campaign start digits
  fulcrum campaign watch digits
  fulcrum campaign export digits --out labels.csv

'fulcrum campaign WORD --help' tells all about a word.
)";

std::vector<Command> Words() {
  return {CampaignCreateCommand(), CampaignListCommand(),    CampaignGetCommand(),    CampaignStartCommand(),
          CampaignPauseCommand(),  CampaignResumeCommand(),  CampaignStopCommand(),   CampaignRetrainCommand(),
          CampaignDeleteCommand(), CampaignWatchCommand(),   CampaignExportCommand(), CampaignImportLabelsCommand(),
          CampaignAppendCommand(), CampaignPredictCommand(), CampaignModelCommand()};
}

CommandRun AddCampaign(CLI::App& app) {
  auto added = std::make_shared<std::vector<std::pair<CLI::App*, CommandRun>>>();
  for (const Command& word : Words()) {
    CLI::App* sub = app.add_subcommand(word.name, word.summary);
    sub->group(word.group);
    added->emplace_back(sub, word.add(*sub));
  }
  app.require_subcommand(1);
  app.footer(absl::StrCat(kFooter, "\n", ExitCodeHelp()));
  return [added]() -> absl::Status {
    for (const auto& [sub, run] : *added) {
      if (sub->parsed()) return run();
    }
    return absl::InvalidArgumentError("say what to do, such as 'fulcrum campaign list'");
  };
}

}  // namespace

void AddCampaignName(CLI::App& app, CampaignOptions& options) {
  app.add_option("name", options.name, "Name of the campaign")->type_name("")->required();
}

void AddCampaignOptions(CLI::App& app, CampaignOptions& options) {
  app.add_flag("--json", options.json, "Print JSON, for programs");
  AddConnectionOptions(app, options.connection);
}

absl::Status PrintAnswer(const CampaignOptions& options, std::string_view text,
                         const google::protobuf::Message& message) {
  FULCRUM_ASSIGN_OR_RETURN(const std::unique_ptr<TextSink> output, OpenTextSink("-"));
  if (options.json) {
    FULCRUM_ASSIGN_OR_RETURN(const std::string json, JsonText(message, /*one_line=*/false));
    FULCRUM_RETURN_IF_ERROR(output->Write(json));
  } else {
    FULCRUM_RETURN_IF_ERROR(output->Write(text));
  }
  return output->Finish();
}

absl::Status PrintCampaign(const CampaignOptions& options, const v1::Campaign& campaign) {
  return PrintAnswer(options, CampaignDetails(campaign), campaign);
}

Command CampaignCommand() {
  return {"campaign", "Campaigns", "Create, steer and watch campaigns on a server", AddCampaign};
}

}  // namespace fulcrum::pipeline
