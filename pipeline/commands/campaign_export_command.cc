// `fulcrum campaign export NAME`: every label there is, as CSV or Parquet.

#include <memory>
#include <string>

#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/client/campaign_calls.h"
#include "pipeline/client/label_export.h"
#include "pipeline/commands/campaign_commands.h"
#include "pipeline/commands/connection_options.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

struct ExportOptions {
  CampaignOptions campaign = {};
  std::string out = "-";
};

absl::Status Export(const ExportOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.campaign.connection));
  FULCRUM_ASSIGN_OR_RETURN(const std::unique_ptr<LabelExport> out, OpenLabelExport(options.out));
  FULCRUM_RETURN_IF_ERROR(
      CampaignCalls(connection).ExportLabels(options.campaign.name, [&](const v1::ExportedLabel& label) {
        return out->Add(label);
      }));
  return out->Finish();
}

CommandRun AddExport(CLI::App& app) {
  auto options = std::make_shared<ExportOptions>();
  AddCampaignName(app, options->campaign);
  app.add_option("--out", options->out, "File to write: .parquet, .csv or .csv.gz; - is CSV on standard output")
      ->type_name("FILE")
      ->capture_default_str();
  AddConnectionOptions(app, options->campaign.connection);
  app.footer(
      "Columns: sequence,id,label,annotator,time,round,lease_id,cost,kind, in the order the labels were given.\n"
      "The file appears when it is whole.");
  return [options] { return Export(*options); };
}

}  // namespace

Command CampaignExportCommand() {
  return {"export", "Labels", "Write every label to a file, with who gave it and when", AddExport};
}

}  // namespace fulcrum::pipeline
