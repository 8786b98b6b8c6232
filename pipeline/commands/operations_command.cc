// `fulcrum operations list|get|cancel`: campaigns that are being created, and rows that are being appended.

#include <google/protobuf/util/time_util.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "fulcrum/v1/operation_service.pb.h"
#include "pipeline/client/campaign_calls.h"
#include "pipeline/client/campaign_text.h"
#include "pipeline/commands/command_line.h"
#include "pipeline/text/text_sink.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

constexpr char kOperationsFooter[] =
    R"('fulcrum campaign create --no-wait' prints the name of the operation that imports the pool. It continues after
a restart of the server. Rows that 'fulcrum campaign append' sends are an operation too, which ends with that command.
Operations are listed for a day after their end.

Example:
  fulcrum operations list
  fulcrum operations cancel create-digits-1789123456789012
)";

/// `campaign.name` is the operation's.
using OperationOptions = CampaignOptions;

std::string OperationStateText(const v1::Operation& operation) {
  return absl::AsciiStrToLower(absl::StripPrefix(v1::OperationState_Name(operation.state()), "OPERATION_STATE_"));
}

std::string OperationTimeText(const google::protobuf::Timestamp& time) {
  return google::protobuf::util::TimeUtil::ToString(time).substr(0, 19) + "Z";
}

absl::Status ListOperations(const OperationOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.connection));
  FULCRUM_ASSIGN_OR_RETURN(const v1::ListOperationsResponse all, CampaignCalls(connection).ListOperations());
  std::vector<std::vector<std::string>> rows = {{"OPERATION", "CAMPAIGN", "STATE", "ROWS", "BY", "SINCE"}};
  for (const v1::Operation& operation : all.operations()) {
    rows.push_back({PrintableLine(operation.name()), PrintableLine(operation.campaign()), OperationStateText(operation),
                    absl::StrCat(operation.rows_done()), PrintableLine(operation.requested_by()),
                    OperationTimeText(operation.created_at())});
  }
  return PrintAnswer(options, TextTable(rows), all);
}

absl::Status PrintOperation(const OperationOptions& options, const v1::Operation& operation) {
  std::string text = absl::StrCat("operation ", PrintableLine(operation.name()), "\nstate     ",
                                  OperationStateText(operation), "\nrows      ", operation.rows_done(), "\n");
  if (operation.has_error()) absl::StrAppend(&text, "error     ", PrintableLine(operation.error().message()), "\n");
  return PrintAnswer(options, text, operation);
}

absl::Status GetOperation(const OperationOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.connection));
  FULCRUM_ASSIGN_OR_RETURN(const v1::Operation operation, CampaignCalls(connection).GetOperation(options.name));
  return PrintOperation(options, operation);
}

absl::Status CancelOperation(const OperationOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.connection));
  FULCRUM_ASSIGN_OR_RETURN(const v1::Operation operation, CampaignCalls(connection).CancelOperation(options.name));
  return PrintOperation(options, operation);
}

CommandRun AddOperations(CLI::App& app) {
  const auto options = std::make_shared<OperationOptions>();
  const auto words = std::make_shared<std::vector<std::pair<CLI::App*, absl::Status (*)(const OperationOptions&)>>>();
  const auto add = [&](const char* word, const char* what, absl::Status (*run)(const OperationOptions&)) {
    CLI::App* const sub = app.add_subcommand(word, what);
    words->emplace_back(sub, run);
    AddCampaignOptions(*sub, *options);
    return sub;
  };
  const auto add_name = [&](CLI::App* sub) {
    sub->add_option("operation", options->name, "Name of the operation")->type_name("")->required();
  };
  add("list", "List the operations, the newest first", ListOperations);
  add_name(add("get", "Show an operation", GetOperation));
  add_name(add("cancel", "Cancel an operation and remove what it has written", CancelOperation));
  app.require_subcommand(1);
  app.footer(absl::StrCat(kOperationsFooter, "\n", ExitCodeHelp()));
  return [words, options]() -> absl::Status {
    for (const auto& [sub, run] : *words) {
      if (sub->parsed()) return run(*options);
    }
    return absl::InvalidArgumentError("name a command, such as 'fulcrum operations list'");
  };
}

}  // namespace

Command OperationsCommand() {
  return {"operations", "Campaigns", "List, show and cancel creations of campaigns and appends", AddOperations};
}

}  // namespace fulcrum::pipeline
