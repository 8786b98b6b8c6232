#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/client/campaign_calls.h"
#include "pipeline/client/campaign_text.h"
#include "pipeline/client/server_connection.h"
#include "pipeline/commands/command_line.h"
#include "pipeline/round/progress.h"
#include "pipeline/text/status.h"
#include "pipeline/text/text_sink.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {

// `fulcrum campaign ...`: manages campaigns on a server.

namespace {

constexpr char kCampaignFooter[] =
    R"(A campaign is a pool, a question with its classes, and rules for spending labels. 'fulcrum serve' stores and
runs it. Workers ('fulcrum work', or any client of fulcrum.v1) provide the labels.

Example:
  fulcrum campaign create digits.yaml
  fulcrum campaign start digits
  fulcrum campaign watch digits
  fulcrum campaign export digits --out labels.csv

'fulcrum campaign COMMAND --help' describes a command.
)";

std::vector<Command> Words() {
  return {CampaignCreateCommand(),       CampaignListCommand(),   CampaignGetCommand(),   CampaignStartCommand(),
          CampaignPauseCommand(),        CampaignResumeCommand(), CampaignStopCommand(),  CampaignRetrainCommand(),
          CampaignUpdateCommand(),       CampaignDeleteCommand(), CampaignWatchCommand(), CampaignExportCommand(),
          CampaignImportLabelsCommand(), CampaignAppendCommand(), CampaignOfferCommand(), CampaignPredictCommand(),
          CampaignModelCommand()};
}

CommandRun AddCampaign(CLI::App& app) {
  auto added = std::make_shared<std::vector<std::pair<CLI::App*, CommandRun>>>();
  for (const Command& word : Words()) {
    CLI::App* sub = app.add_subcommand(word.name, word.summary);
    sub->group(word.group);
    added->emplace_back(sub, word.add(*sub));
  }
  app.require_subcommand(1);
  app.footer(absl::StrCat(kCampaignFooter, "\n", ExitCodeHelp()));
  return [added]() -> absl::Status {
    for (const auto& [sub, run] : *added) {
      if (sub->parsed()) return run();
    }
    return absl::InvalidArgumentError("name a command, such as 'fulcrum campaign list'");
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
  return {"campaign", "Campaigns", "Create, control and watch campaigns on a server", AddCampaign};
}

// `fulcrum campaign list|get|start|pause|resume|stop|retrain|delete`: one call each.

namespace {

using CampaignMethod = absl::StatusOr<v1::Campaign> (CampaignCalls::*)(const std::string&);
using CampaignChange = absl::StatusOr<v1::Campaign> (CampaignCalls::*)(const std::string&, const std::string&);

struct SteerOptions {
  CampaignOptions campaign = {};
  std::string reason = {};
};

template <typename Method>
absl::Status Steer(const SteerOptions& options, Method method) {
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.campaign.connection));
  CampaignCalls calls(connection);
  absl::StatusOr<v1::Campaign> campaign;
  if constexpr (std::is_same_v<Method, CampaignChange>) {
    campaign = (calls.*method)(options.campaign.name, options.reason);
  } else {
    campaign = (calls.*method)(options.campaign.name);
  }
  FULCRUM_RETURN_IF_ERROR(campaign.status());
  return PrintCampaign(options.campaign, *campaign);
}

template <typename Method>
Command SteerCommand(std::string name, std::string summary, Method method) {
  const auto add = [method](CLI::App& app) -> CommandRun {
    auto options = std::make_shared<SteerOptions>();
    AddCampaignName(app, options->campaign);
    if constexpr (std::is_same_v<Method, CampaignChange>) {
      app.add_option("--reason", options->reason, "Why; stored with the change and shown with the state");
    }
    AddCampaignOptions(app, options->campaign);
    return [options, method] { return Steer(*options, method); };
  };
  return {std::move(name), "Control", std::move(summary), add};
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
  return {"list", "Read", "List all campaigns", AddList};
}

Command CampaignGetCommand() {
  Command command = SteerCommand("get", "Show one campaign", &CampaignCalls::Get);
  command.group = "Read";
  return command;
}

Command CampaignStartCommand() {
  return SteerCommand("start", "Select the first batch, or continue after a failure", &CampaignCalls::Start);
}

Command CampaignPauseCommand() {
  return SteerCommand("pause", "Stop offering tasks; labels are still accepted", &CampaignCalls::Pause);
}

Command CampaignResumeCommand() {
  return SteerCommand("resume", "Continue after a pause", &CampaignCalls::Resume);
}

Command CampaignStopCommand() {
  return SteerCommand("stop", "End a campaign permanently; its results remain", &CampaignCalls::Stop);
}

Command CampaignRetrainCommand() {
  return SteerCommand("retrain", "Train the next round's model from scratch instead of from the last one",
                      &CampaignCalls::Retrain);
}

Command CampaignDeleteCommand() {
  return {"delete", "Control", "Move a campaign that is not running to the server's trash folder", AddDelete};
}

// `fulcrum campaign create FILE`: a campaign from its YAML file.

namespace {

constexpr char kCreateFooter[] =
    R"(The file has the fields of CampaignSpec in proto/fulcrum/v1/campaign_spec.proto, which explains each:
  name: digits
  pool: {sources: [digits.parquet], id_column: image}
  classes: ["3", "5"]
  question: Which digit is this?
  selection: {strategy: dbalevs, batch: 10, kernel: {type: rbf, sigma: 1}}
  labeling: {lease_time: 10m}
  stop: {labels: 200, accuracy: {sources: [held_out.parquet], target: 0.97}}
  seed: 1
Everything that is wrong with it is reported at once. Sources are files, folders, globs or file:// URIs in the server's
folder of pools (no other schemes: copy data from object stores or the web there), or with --upload on this machine.)";

struct CreateOptions {
  CampaignOptions campaign = {};
  std::string file = {};
  bool no_wait = false;
  bool upload = false;
};

constexpr std::chrono::milliseconds kFirstPoll{20};
constexpr std::chrono::milliseconds kLongestPoll{500};
constexpr RetryPolicy kOperationRetry{.longest_pause = std::chrono::milliseconds(1'000)};

absl::Status ErrorOf(const v1::Operation& operation) {
  const absl::Status status(static_cast<absl::StatusCode>(operation.error().code()), operation.error().message());
  return WithSerializedDetails(status, operation.error().details());
}

/// Waits for the end of an operation, across restarts of the server. A signal cancels the operation.
absl::StatusOr<v1::Operation> WaitForOperation(CampaignCalls& calls, v1::Operation operation) {
  StopFlag stop;
  const StopOnSignals signals(stop);
  Progress progress("fulcrum campaign create", ChooseProgressStyle(/*quiet=*/false, /*verbose=*/false));
  Retrier retrier(kOperationRetry, WallTiming(stop), /*seed=*/0);
  std::chrono::milliseconds pause = kFirstPoll;
  bool cancelled = false;
  while (!operation.has_ended_at()) {
    if (!stop.Sleep(pause) && !std::exchange(cancelled, true)) {
      FULCRUM_RETURN_IF_ERROR(calls.CancelOperation(operation.name()).status());
    }
    // A raised flag no longer sleeps.
    if (cancelled) std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPoll);
    FULCRUM_RETURN_IF_ERROR(retrier.Call([&]() -> absl::Status {
      FULCRUM_ASSIGN_OR_RETURN(operation, calls.GetOperation(operation.name()));
      return absl::OkStatus();
    }));
    progress.Update("rows", static_cast<std::size_t>(operation.rows_done()), 0);
  }
  progress.Clear();
  return operation;
}

absl::Status Create(const CreateOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(v1::CampaignSpec spec, LoadCampaignYaml(options.file));
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.campaign.connection));
  CampaignCalls calls(connection);
  std::vector<std::string> uploads;
  if (options.upload) {
    FULCRUM_ASSIGN_OR_RETURN(uploads, UploadSources(connection, spec));
  }
  FULCRUM_ASSIGN_OR_RETURN(v1::Operation operation, calls.Create(spec, RequestIds().Next()));
  if (options.no_wait) {
    return PrintAnswer(options.campaign, absl::StrCat("operation ", operation.name(), "\n"), operation);
  }
  FULCRUM_ASSIGN_OR_RETURN(operation, WaitForOperation(calls, std::move(operation)));
  DeleteUploads(connection, uploads);
  if (operation.state() != v1::OPERATION_STATE_SUCCEEDED) return ErrorOf(operation);
  return PrintCampaign(options.campaign, operation.result());
}

CommandRun AddCreate(CLI::App& app) {
  auto options = std::make_shared<CreateOptions>();
  app.add_option("file", options->file, "YAML file that describes the campaign")->type_name("")->required();
  app.add_flag("--no-wait", options->no_wait, "Print the operation that imports the pool, and do not wait for its end");
  app.add_flag("--upload", options->upload, "The sources are files on this machine: send them to the server");
  AddCampaignOptions(app, options->campaign);
  app.footer(kCreateFooter);
  return [options] { return Create(*options); };
}

}  // namespace

Command CampaignCreateCommand() {
  return {"create", "Control", "Create a campaign from a YAML file; 'start' runs it", AddCreate};
}

// `fulcrum campaign update NAME FIELD=VALUE...`: changes a specification.

namespace {

constexpr char kUpdateFooter[] =
    R"(A field is named by its path in the YAML file; its value is written as there. Without a value (FIELD=) it gets
its default. What can be changed: question, selection.batch, selection.cost_budget, selection.cluster.*,
selection.memory_mib, labeling.*, advance.*, stop.* (except the validation set), classifier.class_weights,
classifier.external.* and retention.*. A campaign that a stopping rule ended goes on if the new rules allow it.

Example:
  fulcrum campaign update digits stop.labels=500 labeling.lease_time=20m)";

struct UpdateOptions {
  CampaignOptions campaign = {};
  std::vector<std::string> changes = {};
};

/// "stop.labels=500" as a specification with that field alone.
absl::StatusOr<v1::CampaignSpec> ParseChange(const std::string& path, const std::string& value) {
  if (value.empty()) return v1::CampaignSpec();
  const std::vector<std::string> names = absl::StrSplit(path, '.');
  const std::string text = absl::StrCat(absl::StrJoin(names, ": {"), ": ", value, std::string(names.size() - 1, '}'));
  return ParseCampaignYaml(text, absl::StrCat("'", path, "=", value, "'"));
}

absl::Status Update(const UpdateOptions& options) {
  v1::UpdateCampaignRequest request;
  request.set_campaign(options.campaign.name);
  request.set_request_id(RequestIds().Next());
  for (const std::string& change : options.changes) {
    const std::size_t equals = change.find('=');
    if (equals == std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat("'", change, "' is not of the form FIELD=VALUE"));
    }
    const std::string path = change.substr(0, equals);
    FULCRUM_ASSIGN_OR_RETURN(const v1::CampaignSpec spec, ParseChange(path, change.substr(equals + 1)));
    request.mutable_spec()->MergeFrom(spec);
    request.mutable_update_mask()->add_paths(path);
  }
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.campaign.connection));
  FULCRUM_ASSIGN_OR_RETURN(const v1::Campaign campaign, CampaignCalls(connection).Update(request));
  return PrintCampaign(options.campaign, campaign);
}

CommandRun AddUpdate(CLI::App& app) {
  auto options = std::make_shared<UpdateOptions>();
  AddCampaignName(app, options->campaign);
  app.add_option("changes", options->changes, "What changes, such as stop.labels=500")->type_name("")->required();
  AddCampaignOptions(app, options->campaign);
  app.footer(kUpdateFooter);
  return [options] { return Update(*options); };
}

}  // namespace

Command CampaignUpdateCommand() {
  return {"update", "Control", "Change budgets, stopping rules and other settings of a campaign", AddUpdate};
}

}  // namespace fulcrum::pipeline
