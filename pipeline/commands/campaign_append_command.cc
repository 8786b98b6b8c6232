// `fulcrum campaign append NAME FILE`: more examples for a campaign's pool.

#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/client/campaign_calls.h"
#include "pipeline/client/printable_text.h"
#include "pipeline/client/request_ids.h"
#include "pipeline/client/retry.h"
#include "pipeline/client/stop_flag.h"
#include "pipeline/client/wall_timing.h"
#include "pipeline/commands/campaign_commands.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/table_conversion.h"

namespace fulcrum::pipeline {
namespace {

constexpr RetryPolicy kRetry{.give_up_after = std::chrono::seconds(30)};
constexpr char kFooter[] =
    R"(The file may be of any format that 'fulcrum convert' reads; it travels as Arrow IPC. Its columns have the
names of the pool's. All rows that can be taken join the pool together and take part from the next round on;
those that cannot are counted, and some of them shown with the reason. Rows whose ids the pool has are no error;
where the pool has no ids, all rows are new and get the next row numbers.)";

struct AppendOptions {
  CampaignOptions campaign = {};
  std::string file = {};
};

std::string ToText(const v1::AppendItemsResponse& response) {
  std::string text = absl::StrCat(response.added(), " of ", response.read(), " rows added, ", response.there_already(),
                                  " were there already, ", response.rejected(), " rejected; the pool has ",
                                  response.pool_rows(), " rows\n");
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
  FULCRUM_RETURN_IF_ERROR(ingest::ConvertTable({options.file}, converted).status());
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.campaign.connection));
  CampaignCalls calls(connection);
  const StopFlag stop;
  Retrier retrier(kRetry, WallTiming(stop), /*seed=*/0);
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
  AddCampaignOptions(app, options->campaign);
  app.footer(kFooter);
  return [options] { return Append(*options); };
}

}  // namespace

Command CampaignAppendCommand() {
  return {"append", "Pool and models", "Add examples to a campaign's pool while it runs", AddAppend};
}

}  // namespace fulcrum::pipeline
