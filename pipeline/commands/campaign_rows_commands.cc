#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/client/campaign_calls.h"
#include "pipeline/client/campaign_text.h"
#include "pipeline/client/server_connection.h"
#include "pipeline/commands/command_line.h"
#include "pipeline/text/text_sink.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/formats/table_writer.h"
#include "stages/ingest/pool.h"

namespace fulcrum::pipeline {

// `fulcrum campaign append NAME FILE`: more examples for a campaign's pool.

namespace {

constexpr RetryPolicy kRowsRetry{.give_up_after = std::chrono::seconds(30)};
constexpr char kAppendFooter[] =
    R"(The file may be of any format that 'fulcrum convert' reads; it is sent as Arrow IPC. Its columns have the
names of the pool's. All valid rows are added to the pool together and can be selected from the next round on;
the others are counted, and some of them are shown with the reason. Rows whose ids exist in the pool are not an
error; if the pool has no ids, all rows are new and get the next row numbers. 'fulcrum operations list' shows how
far it is.)";

struct AppendOptions {
  CampaignOptions campaign = {};
  std::string file = {};
  std::string memory = "2GiB";
};

std::string ToText(const v1::AppendItemsResponse& response) {
  std::string text =
      absl::StrCat(response.added(), " of ", response.read(), " rows added, ", response.existing(), " existing, ",
                   response.rejected(), " rejected; the pool has ", response.pool_rows(), " rows\n");
  for (const std::string& example : response.rejected_examples()) {
    absl::StrAppend(&text, "  ", PrintableLine(example), "\n");
  }
  return text;
}

absl::Status Append(const AppendOptions& options) {
  const std::string converted =
      (std::filesystem::temp_directory_path() / absl::StrCat("fulcrum-append-", getpid(), ".arrow")).string();
  const auto cleanup = absl::MakeCleanup([&converted] {
    std::error_code ignored;
    std::filesystem::remove(converted, ignored);
  });
  FULCRUM_ASSIGN_OR_RETURN(const ingest::InputLimits limits, LimitsOf(options.memory));
  FULCRUM_RETURN_IF_ERROR(
      WithMemoryAdvice(ingest::ConvertTable({options.file}, converted, limits).status(), options.memory));
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.campaign.connection));
  CampaignCalls calls(connection);
  const StopFlag stop;
  Retrier retrier(kRowsRetry, WallTiming(stop), /*seed=*/0);
  const std::string request_id = RequestIds().Next();
  v1::AppendItemsResponse response;
  FULCRUM_RETURN_IF_ERROR(retrier.Call([&]() -> absl::Status {
    FULCRUM_ASSIGN_OR_RETURN(response, calls.AppendItems(options.campaign.name, request_id, converted));
    return absl::OkStatus();
  }));
  return PrintAnswer(options.campaign, ToText(response), response);
}

CommandRun AddAppend(CLI::App& app) {
  auto options = std::make_shared<AppendOptions>();
  AddCampaignName(app, options->campaign);
  app.add_option("file", options->file, "Table with the new rows")->type_name("")->required();
  AddMemoryOption(app, options->memory);
  AddCampaignOptions(app, options->campaign);
  app.footer(kAppendFooter);
  return [options] { return Append(*options); };
}

}  // namespace

Command CampaignAppendCommand() {
  return {"append", "Pool and models", "Add examples to a campaign's pool while it runs", AddAppend};
}

// `fulcrum campaign import-labels NAME FILE`: labels from another source.

namespace {

constexpr std::size_t kMostBytes = 3 * 1024 * 1024;  // below the server's limit of 4 MiB per message

struct ImportLabelsOptions {
  CampaignOptions campaign = {};
  std::string file = {};
  std::string source = {};
  std::string memory = "2GiB";
};

/// As few requests as possible; each is imported completely or not at all.
std::vector<v1::ImportLabelsRequest> MakeRequests(const ImportLabelsOptions& options,
                                                  const std::vector<ingest::KnownLabel>& labels) {
  RequestIds ids;
  std::vector<v1::ImportLabelsRequest> requests;
  std::size_t bytes = kMostBytes;
  for (const ingest::KnownLabel& label : labels) {
    if (bytes >= kMostBytes) {
      bytes = 0;
      v1::ImportLabelsRequest& request = requests.emplace_back();
      request.set_campaign(options.campaign.name);
      request.set_source(options.source.empty() ? std::filesystem::path(options.file).filename().string()
                                                : options.source);
      request.set_request_id(ids.Next());
    }
    v1::ImportLabelsRequest::Entry& entry = *requests.back().add_labels();
    entry.set_item_id(label.id);
    entry.set_value(label.label);
    bytes += label.id.size() + label.label.size() + 16;
  }
  return requests;
}

absl::Status Import(const ImportLabelsOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(const ingest::InputLimits limits, LimitsOf(options.memory));
  const auto loaded = ingest::LoadKnownLabels(options.file, limits);
  FULCRUM_RETURN_IF_ERROR(WithMemoryAdvice(loaded.status(), options.memory));
  const std::vector<ingest::KnownLabel>& labels = *loaded;
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.campaign.connection));
  CampaignCalls calls(connection);
  const StopFlag stop;
  Retrier retrier(kRowsRetry, WallTiming(stop), /*seed=*/0);
  v1::ImportLabelsResponse all;
  for (const v1::ImportLabelsRequest& request : MakeRequests(options, labels)) {
    const absl::Status status = retrier.Call([&]() -> absl::Status {
      FULCRUM_ASSIGN_OR_RETURN(const v1::ImportLabelsResponse response, calls.ImportLabels(request));
      all.set_imported(all.imported() + response.imported());
      return absl::OkStatus();
    });
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrCat(status.message(), " (", all.imported(), " of ", labels.size(),
                                                      " labels were imported before)"));
    }
  }
  return PrintAnswer(options.campaign, absl::StrCat(all.imported(), " labels imported\n"), all);
}

CommandRun AddImportLabels(CLI::App& app) {
  auto options = std::make_shared<ImportLabelsOptions>();
  AddCampaignName(app, options->campaign);
  app.add_option("file", options->file, "Table with the columns id and label")->type_name("")->required();
  app.add_option("--source", options->source,
                 "Where the labels come from, stored with them; default: the name of the file")
      ->type_name("TEXT");
  AddMemoryOption(app, options->memory);
  AddCampaignOptions(app, options->campaign);
  app.footer(
      "Imported labels decide their examples regardless of votes. A large file is sent in parts of some ten thousand\n"
      "labels, each imported completely or not at all.");
  return [options] { return Import(*options); };
}

}  // namespace

Command CampaignImportLabelsCommand() {
  return {"import-labels", "Labels", "Import labels from another source", AddImportLabels};
}

}  // namespace fulcrum::pipeline
