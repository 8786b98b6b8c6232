// `fulcrum items list|get|resolve|return`: the examples of a campaign one by one.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "fulcrum/v1/item_service.pb.h"
#include "pipeline/client/campaign_calls.h"
#include "pipeline/client/campaign_text.h"
#include "pipeline/commands/command_line.h"
#include "pipeline/text/text_sink.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

constexpr char kItemsFooter[] =
    R"(States: unlabeled, open (waits for a worker), leased, labeled, disputed (the votes give no decision) and
set_aside (reported as bad, or offered too often without an answer).

Example:
  fulcrum items list digits --state disputed
  fulcrum items get digits 1234
  fulcrum items resolve digits 1234 5 --reason "looked at the original"
  fulcrum items return digits 77
)";

struct ItemOptions {
  CampaignOptions campaign = {};
  std::string item = {};
  std::string value = {};
  std::string reason = {};
  std::string state = {};
  int most = 100;
};

std::string StateText(v1::ItemState state) {
  return absl::AsciiStrToLower(absl::StripPrefix(v1::ItemState_Name(state), "ITEM_STATE_"));
}

std::string VotesText(const v1::Item& item) {
  std::vector<std::string> votes;
  for (const v1::Vote& vote : item.votes()) {
    votes.push_back(absl::StrCat(PrintableLine(vote.annotator()), "=",
                                 vote.withdrawn() ? "(withdrawn)" : PrintableLine(vote.value())));
  }
  return absl::StrJoin(votes, " ");
}

absl::StatusOr<v1::ItemState> ParseState(const std::string& name) {
  v1::ItemState state = v1::ITEM_STATE_UNSPECIFIED;
  if (name.empty() || v1::ItemState_Parse(absl::StrCat("ITEM_STATE_", absl::AsciiStrToUpper(name)), &state)) {
    return state;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--state is '", name, "'; it must be unlabeled, open, leased, labeled, disputed or set_aside"));
}

absl::Status List(const ItemOptions& options) {
  v1::ListItemsRequest request;
  request.set_campaign(options.campaign.name);
  FULCRUM_ASSIGN_OR_RETURN(const v1::ItemState state, ParseState(options.state));
  request.set_state(state);
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.campaign.connection));
  CampaignCalls calls(connection);
  v1::ListItemsResponse all;
  do {
    request.set_page_size(options.most - all.items_size());
    FULCRUM_ASSIGN_OR_RETURN(const v1::ListItemsResponse page, calls.ListItems(request));
    all.mutable_items()->MergeFrom(page.items());
    all.set_total_size(page.total_size());
    all.set_next_page_token(page.next_page_token());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty() && all.items_size() < options.most);
  std::vector<std::vector<std::string>> rows = {
      {"ITEM", "STATE", "LABEL", "PREDICTION", "ROUND", "AGREEMENT", "CONFIDENCE", "VOTES"}};
  for (const v1::Item& item : all.items()) {
    rows.push_back({PrintableLine(item.item_id()), StateText(item.state()), PrintableLine(item.label()),
                    PrintableLine(item.prediction()), absl::StrCat(item.round()),
                    item.has_agreement() ? absl::StrFormat("%.2f", item.agreement()) : "-",
                    item.has_confidence() ? absl::StrFormat("%.3f", item.confidence()) : "-", VotesText(item)});
  }
  const std::string text = absl::StrCat(TextTable(rows), all.items_size(), " of ", all.total_size(), "\n");
  return PrintAnswer(options.campaign, text, all);
}

std::string ItemText(const v1::Item& item) {
  std::string text;
  const auto fact = [&](const char* name, const std::string& value) {
    if (!value.empty()) absl::StrAppendFormat(&text, "%-11s %s\n", name, value);
  };
  fact("item", PrintableLine(item.item_id()));
  fact("state", StateText(item.state()));
  fact("label", PrintableLine(item.label()));
  fact("reason", PrintableLine(item.reason()));
  fact("prediction", PrintableLine(item.prediction()));
  fact("votes", VotesText(item));
  fact("skipped by", PrintableLine(absl::StrJoin(item.declined_by(), " ")));
  return text;
}

std::string SelectionText(const v1::ItemSelection& selection) {
  std::string text = absl::StrFormat("selected    round %d, rank %d, by %s", selection.round(), selection.rank(),
                                     PrintableLine(selection.strategy()));
  if (!selection.predicted().empty()) absl::StrAppend(&text, ", predicted ", PrintableLine(selection.predicted()));
  absl::StrAppendFormat(&text, "\n            leverage %g", selection.leverage());
  if (selection.rank_in_class() > 0) {
    absl::StrAppendFormat(&text, " (%d of %d in its class)", selection.rank_in_class(), selection.class_size());
  }
  absl::StrAppendFormat(&text, ", gain %g", selection.gain());
  if (selection.has_uncertainty()) absl::StrAppendFormat(&text, ", uncertainty %.3f", selection.uncertainty());
  absl::StrAppend(&text, "\n");
  for (const v1::NearestItem& near : selection.nearest_labeled()) {
    absl::StrAppendFormat(&text, "near        %s (%s), distance %.4g\n", PrintableLine(near.item_id()),
                          PrintableLine(near.label()), near.distance());
  }
  return text;
}

/// "label submitted"
std::string EventText(v1::ItemEventKind kind) {
  const std::string name = v1::ItemEventKind_Name(kind);
  return absl::StrReplaceAll(absl::AsciiStrToLower(absl::StripPrefix(name, "ITEM_EVENT_KIND_")), {{"_", " "}});
}

std::string HistoryText(const v1::GetItemResponse& response) {
  std::string text;
  for (const v1::ItemEvent& event : response.history()) {
    const absl::Time time = absl::FromUnixSeconds(event.time().seconds());
    absl::StrAppend(&text, absl::FormatTime("%Y-%m-%d %H:%M:%S", time, absl::LocalTimeZone()), "  ",
                    EventText(event.kind()));
    for (const std::string& part : {event.annotator(), event.value(), event.reason()}) {
      if (!part.empty()) absl::StrAppend(&text, "  ", PrintableLine(part));
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

absl::Status Get(const ItemOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.campaign.connection));
  FULCRUM_ASSIGN_OR_RETURN(const v1::GetItemResponse response,
                           CampaignCalls(connection).GetItem(options.campaign.name, options.item));
  std::string text = ItemText(response.item());
  if (response.payload_bytes() > 0) absl::StrAppend(&text, "payload     ", PrintableLine(response.payload()), "\n");
  if (response.has_selection()) absl::StrAppend(&text, SelectionText(response.selection()));
  return PrintAnswer(options.campaign, absl::StrCat(text, HistoryText(response)), response);
}

absl::Status Resolve(const ItemOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.campaign.connection));
  FULCRUM_ASSIGN_OR_RETURN(
      const v1::Item item,
      CampaignCalls(connection).ResolveItem(options.campaign.name, options.item, options.value, options.reason));
  return PrintAnswer(options.campaign, ItemText(item), item);
}

absl::Status Return(const ItemOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.campaign.connection));
  FULCRUM_ASSIGN_OR_RETURN(const v1::Item item,
                           CampaignCalls(connection).ReturnItem(options.campaign.name, options.item, options.reason));
  return PrintAnswer(options.campaign, ItemText(item), item);
}

using ItemRun = absl::Status (*)(const ItemOptions&);

CLI::App* AddWord(CLI::App& app, const char* name, const char* summary, ItemRun run,
                  const std::shared_ptr<ItemOptions>& options,
                  const std::shared_ptr<std::vector<std::pair<CLI::App*, CommandRun>>>& words) {
  CLI::App* sub = app.add_subcommand(name, summary);
  AddCampaignName(*sub, options->campaign);
  words->emplace_back(sub, [options, run] { return run(*options); });
  return sub;
}

CommandRun AddItems(CLI::App& app) {
  auto words = std::make_shared<std::vector<std::pair<CLI::App*, CommandRun>>>();
  const auto options = std::make_shared<ItemOptions>();
  const auto add_item = [&](CLI::App* sub) {
    sub->add_option("item", options->item, "Name of the example in the pool")->type_name("")->required();
  };
  const auto add_reason = [&](CLI::App* sub) {
    sub->add_option("--reason", options->reason, "Why; stored with the decision")->type_name("TEXT");
  };
  CLI::App* list = AddWord(app, "list", "List examples by state, with votes and predictions", List, options, words);
  list->add_option("--state", options->state, "Only examples in this state; without it all but unlabeled ones")
      ->type_name("STATE");
  list->add_option("--most", options->most, "Examples to list at most")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  CLI::App* get =
      AddWord(app, "get", "Show an example: payload, votes, history, why it was selected", Get, options, words);
  add_item(get);
  CLI::App* resolve = AddWord(app, "resolve", "Decide an example, whatever its votes are", Resolve, options, words);
  add_item(resolve);
  resolve->add_option("label", options->value, "Its label: one of the classes")->type_name("")->required();
  add_reason(resolve);
  CLI::App* back =
      AddWord(app, "return", "Let an example be offered again that was set aside or disputed", Return, options, words);
  add_item(back);
  add_reason(back);
  for (const auto& [sub, run] : *words) AddCampaignOptions(*sub, options->campaign);
  app.require_subcommand(1);
  app.footer(absl::StrCat(kItemsFooter, "\n", ExitCodeHelp()));
  return [words]() -> absl::Status {
    for (const auto& [sub, run] : *words) {
      if (sub->parsed()) return run();
    }
    return absl::InvalidArgumentError("name a command, such as 'fulcrum items list'");
  };
}

}  // namespace

Command ItemsCommand() {
  return {"items", "Campaigns", "List, show and decide the examples of a campaign", AddItems};
}

}  // namespace fulcrum::pipeline
