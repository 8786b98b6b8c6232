// `fulcrum campaign offer NAME`: rows of a stream, decided by a campaign of the daemon as they arrive.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/client/campaign_calls.h"
#include "pipeline/client/campaign_text.h"
#include "pipeline/client/server_connection.h"
#include "pipeline/commands/command_line.h"
#include "pipeline/commands/select/select_stream.h"
#include "stages/core/number_text.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/formats/table_source.h"

namespace fulcrum::pipeline {
namespace {

constexpr RetryPolicy kOfferRetry{.give_up_after = std::chrono::seconds(30)};
constexpr std::size_t kMostRowsAtOnce = 1000;
constexpr std::size_t kMostBytesAtOnce = 2 << 20;  // below the server's limit of 4 MiB per message
constexpr char kOfferFooter[] =
    R"(The rows are lines of CSV from standard input or a file. The first line has the names of the columns: `id`, the
features of the pool in any order, and a payload and a cost if they are named. Every other line is answered by one,
"id,score,threshold,decision", with the decision label, skip or existing (the pool has an example of this id). The
campaign needs 'selection: {stream: ...}' in its specification.)";

struct OfferOptions {
  CampaignOptions campaign = {};
  std::string rows = "-";
  std::string id = "id";
  std::string payload = {};
  std::string cost = {};
};

/// What the columns of the lines mean.
class OfferColumns {
 public:
  static absl::StatusOr<OfferColumns> FromHeader(const StreamLine& line, const OfferOptions& options) {
    FULCRUM_ASSIGN_OR_RETURN(const std::vector<std::string> names, SplitStreamLine(line));
    OfferColumns columns;
    columns.count_ = names.size();
    const auto find = [&](const std::string& name, std::optional<std::size_t>& place) {
      const auto found = std::ranges::find(names, name);
      if (name.empty()) return absl::OkStatus();
      if (found == names.end()) return BadStreamLine(line.number, absl::StrCat("there is no column '", name, "'"));
      place = static_cast<std::size_t>(found - names.begin());
      return absl::OkStatus();
    };
    FULCRUM_RETURN_IF_ERROR(find(options.id, columns.id_));
    FULCRUM_RETURN_IF_ERROR(find(options.payload, columns.payload_));
    FULCRUM_RETURN_IF_ERROR(find(options.cost, columns.cost_));
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (i == columns.id_ || i == columns.payload_ || i == columns.cost_) continue;
      columns.features_.push_back(i);
      columns.names_.push_back(names[i]);
    }
    return columns;
  }

  const std::vector<std::string>& names() const { return names_; }

  absl::Status Parse(const StreamLine& line, v1::OfferedItem& item) const {
    FULCRUM_ASSIGN_OR_RETURN(std::vector<std::string> values, SplitStreamLine(line));
    if (values.size() != count_) {
      return BadStreamLine(line.number, absl::StrCat(values.size(), " values for ", count_, " columns"));
    }
    for (const std::size_t place : features_) {
      FULCRUM_ASSIGN_OR_RETURN(const double value, NumberOf(line, values[place]));
      item.mutable_features()->add_values(value);
    }
    if (cost_) {
      FULCRUM_ASSIGN_OR_RETURN(const double cost, NumberOf(line, values[*cost_]));
      item.set_cost(cost);
    }
    if (payload_) item.set_payload(std::move(values[*payload_]));
    item.set_item_id(std::move(values[*id_]));
    return absl::OkStatus();
  }

 private:
  static absl::StatusOr<double> NumberOf(const StreamLine& line, const std::string& text) {
    const std::optional<double> value = ParseNumber(text);
    if (value && std::isfinite(*value)) return *value;
    return BadStreamLine(line.number, absl::StrCat("'", text, "' is not a finite number"));
  }

  std::size_t count_ = 0;
  std::optional<std::size_t> id_, payload_, cost_;
  std::vector<std::size_t> features_;
  std::vector<std::string> names_;
};

const char* DecisionName(v1::OfferDecision decision) {
  if (decision == v1::OFFER_DECISION_LABEL) return "label";
  return decision == v1::OFFER_DECISION_EXISTING ? "existing" : "skip";
}

absl::Status PrintDecisions(const v1::OfferItemsResponse& response) {
  std::string out;
  for (const v1::OfferAnswer& answer : response.answers()) {
    ingest::AppendCsvField(answer.item_id(), out);
    out.push_back(',');
    AppendNumber(answer.score(), out);
    out.push_back(',');
    AppendNumber(answer.threshold(), out);
    absl::StrAppend(&out, ",", DecisionName(answer.decision()), "\n");
  }
  const bool written = std::fwrite(out.data(), 1, out.size(), stdout) == out.size() && std::fflush(stdout) == 0;
  return written ? absl::OkStatus() : absl::DataLossError("cannot write to standard output");
}

class OfferRun {
 public:
  OfferRun(const OfferOptions& options, CampaignCalls& calls) : options_(options), calls_(calls) {}

  absl::Status Run(int descriptor) {
    LineReader reader(descriptor);
    FULCRUM_ASSIGN_OR_RETURN(std::vector<StreamLine> lines, reader.Next());
    if (lines.empty()) return absl::DataLossError("the stream is empty; it must begin with a line of column names");
    FULCRUM_ASSIGN_OR_RETURN(columns_, OfferColumns::FromHeader(lines.front(), options_));
    std::printf("id,score,threshold,decision\n");
    lines.erase(lines.begin());
    do {
      FULCRUM_RETURN_IF_ERROR(OfferAll(lines));
      FULCRUM_ASSIGN_OR_RETURN(lines, reader.Next());
    } while (!lines.empty());
    return absl::OkStatus();
  }

 private:
  absl::Status OfferAll(const std::vector<StreamLine>& lines) {
    v1::OfferItemsRequest request;
    std::size_t bytes = 0;
    absl::Status status;
    for (const StreamLine& line : lines) {
      status = columns_.Parse(line, *request.add_items());
      if (!status.ok()) {
        request.mutable_items()->RemoveLast();
        break;
      }
      bytes += 8 * columns_.names().size() + line.text.size();
      if (static_cast<std::size_t>(request.items_size()) < kMostRowsAtOnce && bytes < kMostBytesAtOnce) continue;
      FULCRUM_RETURN_IF_ERROR(Offer(request));
      bytes = 0;
    }
    // What comes before the first line that is wrong is decided.
    if (request.items_size() > 0) FULCRUM_RETURN_IF_ERROR(Offer(request));
    return status;
  }

  absl::Status Offer(v1::OfferItemsRequest& request) {
    request.set_campaign(options_.campaign.name);
    request.set_request_id(ids_.Next());
    for (const std::string& name : columns_.names()) request.add_feature_names(name);
    Retrier retrier(kOfferRetry, WallTiming(stop_), /*seed=*/0);
    v1::OfferItemsResponse response;
    FULCRUM_RETURN_IF_ERROR(retrier.Call([&]() -> absl::Status {
      FULCRUM_ASSIGN_OR_RETURN(response, calls_.OfferItems(request));
      return absl::OkStatus();
    }));
    request.Clear();
    return PrintDecisions(response);
  }

  const OfferOptions& options_;
  CampaignCalls& calls_;
  OfferColumns columns_;
  RequestIds ids_;
  const StopFlag stop_;
};

absl::Status OfferRows(const OfferOptions& options) {
  const bool standard = options.rows == "-";
  const int descriptor = standard ? STDIN_FILENO : open(options.rows.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return absl::NotFoundError(absl::StrCat("cannot read '", options.rows, "'"));
  const auto closed = absl::MakeCleanup([&] {
    if (!standard) close(descriptor);
  });
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.campaign.connection));
  CampaignCalls calls(connection);
  return OfferRun(options, calls).Run(descriptor);
}

CommandRun AddOffer(CLI::App& app) {
  auto options = std::make_shared<OfferOptions>();
  AddCampaignName(app, options->campaign);
  app.add_option("--rows", options->rows, "File with the rows; - is standard input")->type_name("FILE");
  app.add_option("--id", options->id, "Column of the ids")->type_name("COLUMN");
  app.add_option("--payload", options->payload, "Column with what annotators need to see")->type_name("COLUMN");
  app.add_option("--cost", options->cost, "Column with what a label costs")->type_name("COLUMN");
  AddCampaignOptions(app, options->campaign);
  app.footer(kOfferFooter);
  return [options] { return OfferRows(*options); };
}

}  // namespace

Command CampaignOfferCommand() {
  return {"offer", "Pool and models", "Offer rows of a stream, which are decided at once", AddOffer};
}

}  // namespace fulcrum::pipeline
