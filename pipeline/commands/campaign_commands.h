// The words after `fulcrum campaign`. A new one is one file and one line in campaign_command.cc.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/client/server_connection.h"
#include "pipeline/commands/command_line.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace fulcrum::v1 {
class Campaign;
class CampaignSpec;
class Upload;
}  // namespace fulcrum::v1

namespace fulcrum::storage {
struct ExportedLabel;
}  // namespace fulcrum::storage

namespace fulcrum::pipeline {

/// What all of them take.
struct CampaignOptions {
  ConnectionOptions connection = {};
  std::string name = {};  ///< of the campaign
  bool json = false;
};

void AddCampaignName(CLI::App& app, CampaignOptions& options);
/// --json, and those of the connection.
void AddCampaignOptions(CLI::App& app, CampaignOptions& options);

/// To standard output: the text, or the message as JSON where that was asked for.
absl::Status PrintAnswer(const CampaignOptions& options, std::string_view text,
                         const google::protobuf::Message& message);
/// The same of one campaign.
absl::Status PrintCampaign(const CampaignOptions& options, const v1::Campaign& campaign);

/// Takes one exported label.
using UseLabel = std::function<absl::Status(const storage::ExportedLabel&)>;
/// Writes the labels that `visit` gives to a file, as CSV or, by its name, Parquet; "-" is CSV on standard output.
absl::Status WriteLabels(const std::string& out, const std::function<absl::Status(const UseLabel&)>& visit);

/// Sends a file to the server, with progress on the terminal.
absl::StatusOr<v1::Upload> UploadOneFile(const std::shared_ptr<const ServerConnection>& connection,
                                         const std::string& file);
/// Sends the local files that a specification names, and names the uploads instead. Returns their ids.
absl::StatusOr<std::vector<std::string>> UploadSources(const std::shared_ptr<const ServerConnection>& connection,
                                                       v1::CampaignSpec& spec);
/// As far as the server can be reached.
void DeleteUploads(const std::shared_ptr<const ServerConnection>& connection, const std::vector<std::string>& ids);

Command CampaignCreateCommand();
Command CampaignListCommand();
Command CampaignUpdateCommand();
Command CampaignGetCommand();
Command CampaignStartCommand();
Command CampaignPauseCommand();
Command CampaignResumeCommand();
Command CampaignStopCommand();
Command CampaignRetrainCommand();
Command CampaignDeleteCommand();
Command CampaignWatchCommand();
Command CampaignExportCommand();
Command CampaignImportLabelsCommand();
Command CampaignAppendCommand();
Command CampaignOfferCommand();
Command CampaignModelCommand();
Command CampaignPredictCommand();

}  // namespace fulcrum::pipeline
