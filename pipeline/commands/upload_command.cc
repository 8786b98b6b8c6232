// `fulcrum upload FILE...`, and the uploads of `fulcrum campaign create --upload`.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "fulcrum/v1/campaign_spec.pb.h"
#include "fulcrum/v1/upload_service.pb.h"
#include "pipeline/client/campaign_text.h"
#include "pipeline/client/upload_calls.h"
#include "pipeline/commands/campaign_commands.h"
#include "pipeline/commands/command_line.h"
#include "pipeline/commands/exit_codes.h"
#include "pipeline/round/progress.h"
#include "pipeline/text/text_sink.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/formats/joined_source.h"

namespace fulcrum::pipeline {
namespace {

constexpr char kUploadFooter[] =
    R"(Sends files to the server, where they can be the pool of a campaign: the printed names, such as
upload:2f0c5d..., are sources in its specification. The server removes an upload that is not used for a day (its
configuration may say otherwise). 'fulcrum campaign create --upload' does both in one step.

Example:
  fulcrum upload digits.parquet
)";

constexpr RetryPolicy kUploadRetry{.give_up_after = std::chrono::seconds(120)};

struct UploadOptions {
  CampaignOptions campaign = {};
  std::vector<std::string> files = {};
};

absl::Status Upload(const UploadOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.campaign.connection));
  v1::ListUploadsResponse uploads;
  std::string text;
  for (const std::string& file : options.files) {
    FULCRUM_ASSIGN_OR_RETURN(const v1::Upload upload, UploadOneFile(connection, file));
    absl::StrAppend(&text, "upload:", upload.id(), "\n");
    *uploads.add_uploads() = upload;
  }
  return PrintAnswer(options.campaign, text, uploads);
}

CommandRun AddUpload(CLI::App& app) {
  auto options = std::make_shared<UploadOptions>();
  app.add_option("files", options->files, "Files to send, of any format that a pool can have")
      ->type_name("")
      ->required();
  AddCampaignOptions(app, options->campaign);
  app.footer(absl::StrCat(kUploadFooter, "\n", ExitCodeHelp()));
  return [options] { return Upload(*options); };
}

}  // namespace

absl::StatusOr<v1::Upload> UploadOneFile(const std::shared_ptr<const ServerConnection>& connection,
                                         const std::string& file) {
  StopFlag stop;
  const StopOnSignals signals(stop);
  Retrier retrier(kUploadRetry, WallTiming(stop), /*seed=*/0);
  Progress progress("fulcrum upload", ChooseProgressStyle(/*quiet=*/false, /*verbose=*/false));
  auto upload = UploadCalls(connection).Send(file, retrier, [&](std::int64_t bytes, std::int64_t of) {
    progress.Update("MiB", static_cast<std::size_t>(bytes >> 20), static_cast<std::size_t>(of >> 20));
  });
  progress.Clear();
  return upload;
}

absl::StatusOr<std::vector<std::string>> UploadSources(const std::shared_ptr<const ServerConnection>& connection,
                                                       v1::CampaignSpec& spec) {
  std::vector<std::string> ids;
  const auto replace = [&](auto& sources) -> absl::Status {
    if (sources.empty()) return absl::OkStatus();
    FULCRUM_ASSIGN_OR_RETURN(const auto files, ingest::ListSources({sources.begin(), sources.end()}));
    sources.Clear();
    for (const ingest::SourceFile& file : files) {
      if (!file.partitions.empty()) {
        return absl::InvalidArgumentError(absl::StrCat("'", file.path, "' is in a partitioned folder, which cannot be ",
                                                       "uploaded; join its files with 'fulcrum convert' first"));
      }
      FULCRUM_ASSIGN_OR_RETURN(const v1::Upload upload, UploadOneFile(connection, file.path));
      ids.push_back(upload.id());
      *sources.Add() = absl::StrCat("upload:", upload.id());
    }
    return absl::OkStatus();
  };
  FULCRUM_RETURN_IF_ERROR(replace(*spec.mutable_pool()->mutable_sources()));
  if (spec.stop().has_accuracy()) {
    FULCRUM_RETURN_IF_ERROR(replace(*spec.mutable_stop()->mutable_accuracy()->mutable_sources()));
  }
  return ids;
}

void DeleteUploads(const std::shared_ptr<const ServerConnection>& connection, const std::vector<std::string>& ids) {
  const StopFlag stop;
  Retrier retrier(kUploadRetry, WallTiming(stop), /*seed=*/0);
  // The server removes those that stay.
  for (const std::string& id : ids) UploadCalls(connection).Delete(id, retrier).IgnoreError();
}

Command UploadCommand() {
  return {"upload", "Campaigns", "Send files to a server, to be the pool of a campaign", AddUpload};
}

}  // namespace fulcrum::pipeline
