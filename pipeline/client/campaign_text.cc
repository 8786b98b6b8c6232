#include "pipeline/client/campaign_text.h"

#include <google/protobuf/message.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/client/server_connection.h"
#include "pipeline/text/text_sink.h"

namespace fulcrum::pipeline {
namespace {

// Columns of text, aligned, for people. Stateless and thread-safe.

std::size_t Width(const std::string& cell) {
  return static_cast<std::size_t>(
      std::count_if(cell.begin(), cell.end(), [](char byte) { return (byte & 0xC0) != 0x80; }));
}

bool LooksLikeNumber(const std::string& cell) {
  return cell.empty() || cell == "-" || absl::ascii_isdigit(static_cast<unsigned char>(cell[0]));
}

std::string Percent(double share) {
  return absl::StrFormat("%.2f%%", 100 * share);
}

std::string AccuracyText(const v1::Campaign& campaign) {
  return campaign.has_accuracy() ? Percent(campaign.accuracy()) : "-";
}

std::string RoundText(const v1::Campaign& campaign) {
  return absl::StrCat(campaign.round(), " (", campaign.round_settled(), " of ", campaign.round_items(), " settled)");
}

std::string ItemsText(const v1::ItemCounts& items) {
  return absl::StrCat(items.labeled(), " labeled, ", items.open(), " open, ", items.leased(), " leased, ",
                      items.disputed(), " disputed, ", items.set_aside(), " set aside, ", items.unlabeled(),
                      " unlabeled");
}

std::string StateLine(const v1::Campaign& campaign) {
  const std::string reason = PrintableLine(campaign.state_reason());
  // Others follow from what the server does.
  const bool was_set = campaign.state() == v1::CAMPAIGN_STATE_PAUSED || campaign.state() == v1::CAMPAIGN_STATE_DONE;
  const std::string by =
      was_set && !campaign.state_by().empty() ? absl::StrCat(" by ", PrintableLine(campaign.state_by())) : "";
  return absl::StrCat(StateName(campaign), by, reason.empty() ? "" : ": ", reason);
}

std::string Describe(const v1::StageProgress& stage) {
  return absl::StrCat("round ", stage.round(), ": ", StageName(stage.stage()), " ", stage.done(), " of ",
                      stage.total());
}

std::string Describe(const v1::BatchCommitted& batch) {
  const std::string bound =
      batch.bound() > 0 ? absl::StrFormat(", at least %.1f%% of the best there is", 100 * batch.value() / batch.bound())
                        : "";
  return absl::StrFormat("round %d: %d examples selected in %.2f s%s", batch.round(), batch.items(), batch.seconds(),
                         bound);
}

std::string Describe(const v1::LabelsAccepted& labels) {
  return absl::StrCat("labels: ", labels.labels(), " given, ", labels.labeled_items(), " examples labeled, ",
                      labels.round_settled(), " of ", labels.round_items(), " of this round settled");
}

std::string Describe(const v1::Campaign& campaign) {
  return absl::StrCat(PrintableLine(campaign.name()), " is ", StateLine(campaign), " (round ", campaign.round(), ", ",
                      campaign.labels(), " labels)");
}

std::string Describe(const v1::CampaignEvent& event) {
  switch (event.event_case()) {
    case v1::CampaignEvent::kCampaign:
      return Describe(event.campaign());
    case v1::CampaignEvent::kRoundStarted:
      return absl::StrCat("round ", event.round_started().round(), " started from ", event.round_started().labels(),
                          " labels");
    case v1::CampaignEvent::kStage:
      return Describe(event.stage());
    case v1::CampaignEvent::kBatch:
      return Describe(event.batch());
    case v1::CampaignEvent::kLabels:
      return Describe(event.labels());
    case v1::CampaignEvent::kModel:
      return absl::StrCat("round ", event.model().round(), ": ", ModelText(event.model()));
    case v1::CampaignEvent::kItems:
      return absl::StrCat(event.items().added(), " examples added to the pool, which has ", event.items().pool_rows());
    case v1::CampaignEvent::EVENT_NOT_SET:
      break;
  }
  return "an event that this version does not know";
}

}  // namespace

std::string TextTable(const std::vector<std::vector<std::string>>& rows) {
  const std::size_t columns = rows.empty() ? 0 : rows[0].size();
  std::vector<std::size_t> widths(columns);
  std::vector<bool> right(columns, true);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      widths[column] = std::max(widths[column], Width(rows[row][column]));
      if (row > 0 && !LooksLikeNumber(rows[row][column])) right[column] = false;
    }
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (std::size_t column = 0; column < columns; ++column) {
      const std::string space(widths[column] - Width(row[column]), ' ');
      absl::StrAppend(&line, column == 0 ? "" : "  ", right[column] ? space : "", row[column],
                      right[column] ? "" : space);
    }
    absl::StripTrailingAsciiWhitespace(&line);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

std::string StateName(const v1::Campaign& campaign) {
  const std::string name = v1::CampaignState_Name(campaign.state());
  return absl::AsciiStrToLower(absl::StripPrefix(name, "CAMPAIGN_STATE_"));
}

std::string StageName(int stage) {
  const std::string name = v1::Stage_Name(static_cast<v1::Stage>(stage));
  return name.empty() ? "an unknown stage" : absl::AsciiStrToLower(absl::StripPrefix(name, "STAGE_"));
}

std::string ModelText(const v1::ModelTrained& model) {
  return absl::StrFormat("trained %s from %d labels in %.2f s, %d support vectors, %s%s of the predictions changed",
                         model.warm() ? "warm" : "cold", model.labels(), model.train_seconds(), model.support_vectors(),
                         model.has_accuracy() ? absl::StrCat("accuracy ", Percent(model.accuracy()), ", ") : "",
                         Percent(model.changed_share()));
}

std::string CampaignTable(const v1::ListCampaignsResponse& campaigns) {
  if (campaigns.campaigns().empty()) return "There are no campaigns; create one with 'fulcrum campaign create FILE'.\n";
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "STATE", "ROUND", "LABELS", "LEASED", "OPEN", "POOL", "ACCURACY"}};
  for (const v1::Campaign& campaign : campaigns.campaigns()) {
    rows.push_back({PrintableLine(campaign.name()), StateName(campaign), absl::StrCat(campaign.round()),
                    absl::StrCat(campaign.labels()), absl::StrCat(campaign.live_leases()),
                    absl::StrCat(campaign.open_tasks()), absl::StrCat(campaign.pool_rows()), AccuracyText(campaign)});
  }
  return TextTable(rows);
}

std::string CampaignDetails(const v1::Campaign& campaign) {
  std::vector<std::string> classes;
  for (const std::string& name : campaign.spec().classes()) classes.push_back(PrintableLine(name));
  const std::pair<const char*, std::string> facts[] = {
      {"name", PrintableLine(campaign.name())},
      {"state", StateLine(campaign)},
      {"classes", absl::StrJoin(classes, ", ")},
      {"pool", absl::StrCat(campaign.pool_rows(), " examples")},
      {"round", RoundText(campaign)},
      {"labels", absl::StrCat(campaign.labels(), " given, ", campaign.imported_labels(), " imported")},
      {"items", ItemsText(campaign.items())},
      {"tasks", absl::StrCat(campaign.open_tasks(), " open, ", campaign.live_leases(), " with workers")},
      {"accuracy", AccuracyText(campaign)},
  };
  std::string text;
  for (const auto& [name, value] : facts) absl::StrAppendFormat(&text, "%-9s %s\n", name, value);
  if (campaign.has_stream()) {
    const v1::StreamStatus& stream = campaign.stream();
    absl::StrAppendFormat(&text, "%-9s %d rows decided, %d to label, %d drift alarms%s\n", "stream", stream.rows(),
                          stream.taken(), stream.drift_alarms(), stream.drifting() ? "; drifting now" : "");
  }
  for (const v1::WaitingFor& reason : campaign.waiting_for()) {
    absl::StrAppendFormat(&text, "%-9s %s\n", "waits for", PrintableLine(reason.text()));
  }
  for (const v1::CampaignCondition& condition : campaign.conditions()) {
    absl::StrAppendFormat(&text, "%-9s %s", "trouble", PrintableLine(condition.reason()));
    if (condition.has_retry_at()) {
      absl::StrAppendFormat(
          &text, " (%d attempts, next at %s)", condition.attempts(),
          absl::FormatTime("%H:%M:%S", absl::FromUnixSeconds(condition.retry_at().seconds()), absl::LocalTimeZone()));
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

std::string EventLine(const v1::CampaignEvent& event) {
  const absl::Time time = absl::FromUnixSeconds(event.time().seconds());
  return absl::StrCat(absl::FormatTime("%H:%M:%S", time, absl::LocalTimeZone()), " ", Describe(event));
}

absl::StatusOr<std::string> JsonText(const google::protobuf::Message& message, bool one_line) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = !one_line;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(message, &text, options);
  if (!status.ok())
    return absl::InternalError(absl::StrCat("the response cannot be shown as JSON: ", status.ToString()));
  absl::StripTrailingAsciiWhitespace(&text);
  return text + "\n";
}

Timing WallTiming(const StopFlag& stop) {
  return {.now = [] { return std::chrono::steady_clock::now(); },
          .sleep = [&stop](std::chrono::milliseconds time) { return stop.Sleep(time); },
          .pause = [](std::chrono::milliseconds time) { std::this_thread::sleep_for(time); }};
}

}  // namespace fulcrum::pipeline
