#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/client/campaign_calls.h"
#include "pipeline/client/campaign_text.h"
#include "pipeline/text/status.h"
#include "pipeline/text/text_sink.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::chrono::milliseconds kPauseBetweenStreams{300};

/// How the campaign ended, where the event says that it did.
std::optional<absl::Status> EndOf(const v1::CampaignEvent& event) {
  if (!event.has_campaign()) return std::nullopt;
  const v1::Campaign& campaign = event.campaign();
  if (campaign.state() == v1::CAMPAIGN_STATE_DONE) return absl::OkStatus();
  if (campaign.state() != v1::CAMPAIGN_STATE_FAILED) return std::nullopt;
  return absl::FailedPreconditionError(
      absl::StrCat("the campaign '", campaign.name(), "' failed: ", PrintableLine(campaign.state_reason()),
                   "; fix the cause, then continue with 'fulcrum campaign start ", campaign.name(), "'"));
}

}  // namespace

absl::Status WatchToTheEnd(CampaignCalls& calls, const std::string& name, const RetryPolicy& policy,
                           const Timing& timing, const std::function<void(const v1::CampaignEvent&)>& on_event) {
  Retrier retrier(policy, timing, /*seed=*/0);
  std::optional<absl::Status> end;
  std::int64_t last_sequence = 0;
  while (!end) {
    FULCRUM_RETURN_IF_ERROR(retrier.Call([&]() -> absl::Status {
      bool told = false;
      const absl::Status status = calls.Watch(name, last_sequence, [&](const v1::CampaignEvent& event) {
        told = true;
        last_sequence = std::max(last_sequence, event.sequence());
        on_event(event);
        end = EndOf(event);
        return !end;
      });
      // A stream that delivered events was not a failed attempt: the retry period starts again.
      return told && MayPass(status) ? absl::OkStatus() : status;
    }));
    if (!end && !timing.sleep(kPauseBetweenStreams)) return absl::CancelledError("asked to end");
  }
  return *end;
}

std::string WatchLines::Follow(const v1::CampaignEvent& event) {
  switch (event.event_case()) {
    case v1::CampaignEvent::kModel: {
      std::string before = TellModel();
      model_ = event;
      return before;
    }
    case v1::CampaignEvent::kBatch:
      return Follow(event, event.batch());
    case v1::CampaignEvent::kCampaign:
      return Follow(event, event.campaign());
    case v1::CampaignEvent::kItems:
      return absl::StrCat(TellModel(), EventLine(event), "\n");
    default:
      return "";
  }
}

std::string WatchLines::TellModel() {
  const std::optional<v1::CampaignEvent> model = std::exchange(model_, std::nullopt);
  return model ? absl::StrCat(EventLine(*model), "\n") : "";
}

std::string WatchLines::Follow(const v1::CampaignEvent& event, const v1::BatchCommitted& batch) {
  const bool same_round = model_ && model_->model().round() == batch.round();
  if (!same_round) return absl::StrCat(TellModel(), EventLine(event), "\n");
  const std::string learned = ModelText(model_->model());
  model_.reset();
  return absl::StrCat(EventLine(event), "; ", learned, "\n");
}

std::string WatchLines::Follow(const v1::CampaignEvent& event, const v1::Campaign& campaign) {
  const bool at_work = campaign.state() == v1::CAMPAIGN_STATE_RUNNING || campaign.state() == v1::CAMPAIGN_STATE_WAITING;
  std::string state = absl::StrCat(at_work ? "at work" : StateName(campaign), campaign.state_reason());
  // Its batch may still be to come.
  if (state == std::exchange(told_state_, state)) return "";
  return absl::StrCat(TellModel(), EventLine(event), "\n");
}

namespace {

constexpr int kEighths = 8;
constexpr const char* kBlocks[kEighths + 1] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

std::vector<double> Columns(const std::vector<PlotPoint>& points, std::size_t width) {
  const std::size_t count = std::min(points.size(), width);
  std::vector<double> columns(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t begin = i * points.size() / count;
    const std::size_t end = (i + 1) * points.size() / count;
    for (std::size_t j = begin; j < end; ++j) columns[i] += points[j].y / static_cast<double>(end - begin);
  }
  return columns;
}

/// Heights in eighths of a line; the lowest is one, so that it is seen.
std::vector<int> Heights(const std::vector<double>& columns, double low, double high, std::size_t lines) {
  const int most = static_cast<int>(lines) * kEighths;
  std::vector<int> heights;
  for (const double value : columns) {
    const double share = high > low ? (value - low) / (high - low) : 1;
    heights.push_back(1 + static_cast<int>(std::lround(share * (most - 1))));
  }
  return heights;
}

std::string AxisLabel(std::size_t line, std::size_t lines, double low, double high) {
  if (line == 0) return absl::StrFormat("%7.2f%% ┤", 100 * high);
  if (line + 1 == lines) return absl::StrFormat("%7.2f%% ┤", 100 * low);
  return "         │";
}

}  // namespace

std::string DrawCurve(const std::vector<PlotPoint>& points, const std::string& x_name, const PlotSize& size) {
  if (points.empty() || size.width == 0 || size.height < 2) return "";
  const std::vector<double> columns = Columns(points, size.width);
  const auto [low, high] = std::minmax_element(columns.begin(), columns.end());
  const std::vector<int> heights = Heights(columns, *low, *high, size.height);
  std::string text;
  for (std::size_t line = 0; line < size.height; ++line) {
    absl::StrAppend(&text, AxisLabel(line, size.height, *low, *high));
    const int below = static_cast<int>(size.height - 1 - line) * kEighths;
    for (const int height : heights) absl::StrAppend(&text, kBlocks[std::clamp(height - below, 0, kEighths)]);
    text.push_back('\n');
  }
  absl::StrAppend(&text, "         └");
  for (std::size_t i = 0; i < columns.size(); ++i) absl::StrAppend(&text, "─");
  absl::StrAppendFormat(&text, "\n          %g to %g %s\n", points.front().x, points.back().x, x_name);
  return text;
}

namespace {

constexpr std::size_t kAxisColumns = 12;
constexpr std::size_t kMostColumns = 100;

std::string Bar(std::int64_t done, std::int64_t total, std::size_t columns) {
  const double share = total > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0) : 0;
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(columns));
  return absl::StrCat("[", std::string(filled, '#'), std::string(columns - filled, '.'), "]");
}

}  // namespace

void WatchScreen::Follow(const v1::CampaignEvent& event) {
  switch (event.event_case()) {
    case v1::CampaignEvent::kCampaign:
      return Follow(event.campaign());
    case v1::CampaignEvent::kRoundStarted:
      round_ = event.round_started().round();
      labeled_items_ = event.round_started().labels();
      doing_ = "training";
      return;
    case v1::CampaignEvent::kStage:
      doing_ = absl::StrCat(StageName(event.stage().stage()), " ", event.stage().done(), " of ", event.stage().total());
      return;
    case v1::CampaignEvent::kBatch:
      round_ = event.batch().round();
      round_items_ = event.batch().items();
      round_settled_ = 0;
      doing_ = absl::StrFormat("selected in %.2f s; waiting for labels", event.batch().seconds());
      return;
    case v1::CampaignEvent::kLabels:
      labels_ = event.labels().labels();
      labeled_items_ = event.labels().labeled_items();
      round_settled_ = event.labels().round_settled();
      round_items_ = event.labels().round_items();
      return;
    case v1::CampaignEvent::kModel:
      return Follow(event.model());
    case v1::CampaignEvent::kItems:
      doing_ = absl::StrCat(event.items().added(), " examples added to the pool");
      return;
    case v1::CampaignEvent::EVENT_NOT_SET:
      return;
  }
}

void WatchScreen::Follow(const v1::Campaign& campaign) {
  name_ = PrintableLine(campaign.name());
  state_ = StateName(campaign);
  reason_ = PrintableLine(campaign.state_reason());
  round_ = campaign.round();
  round_items_ = campaign.round_items();
  round_settled_ = campaign.round_settled();
  labels_ = campaign.labels();
  labeled_items_ = campaign.items().labeled();
  doing_.clear();
}

void WatchScreen::Follow(const v1::ModelTrained& model) {
  models_[model.round()] = {.labels = static_cast<double>(model.labels()),
                            .changed_share = model.changed_share(),
                            .accuracy = model.has_accuracy() ? model.accuracy() : -1};
  doing_ = "selecting";
}

std::string WatchScreen::DrawRound(std::size_t columns) const {
  std::string text = absl::StrCat(name_, ": ", state_, reason_.empty() ? "" : absl::StrCat(" (", reason_, ")"), "\n");
  absl::StrAppend(&text, "round ", round_, "  ", Bar(round_settled_, round_items_, columns / 3), " ", round_settled_,
                  " of ", round_items_, " settled, ", labels_, " labels, ", labeled_items_, " examples labeled\n");
  return absl::StrCat(text, doing_, "\n");
}

std::string WatchScreen::DrawModels(std::size_t columns) const {
  if (models_.empty()) return "";
  const bool measured = models_.rbegin()->second.accuracy >= 0;
  std::vector<PlotPoint> points;
  for (const auto& [round, model] : models_) {
    if (measured && model.accuracy < 0) continue;
    points.push_back({.x = model.labels, .y = measured ? model.accuracy : model.changed_share});
  }
  const std::string title = measured ? "accuracy" : "share of the predictions that a round changed";
  return absl::StrFormat("%s, now %.2f%%\n%s", title, 100 * points.back().y,
                         DrawCurve(points, "labels", {.width = columns - kAxisColumns}));
}

std::string WatchScreen::Draw(std::size_t columns) const {
  const std::size_t used = std::clamp(columns, kAxisColumns + 8, kMostColumns);
  return CutLines(absl::StrCat(DrawRound(used), DrawModels(used)), columns);
}

std::string CutLines(const std::string& text, std::size_t columns) {
  std::string cut;
  std::size_t column = 0;
  for (const char byte : text) {
    const bool continues = (byte & 0xC0) == 0x80;
    if (byte == '\n') {
      column = 0;
    } else if (!continues) {
      ++column;
    }
    if (byte == '\n' || column <= columns) cut.push_back(byte);
  }
  return cut;
}

}  // namespace fulcrum::pipeline
