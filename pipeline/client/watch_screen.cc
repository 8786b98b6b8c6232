#include "pipeline/client/watch_screen.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/client/campaign_text.h"
#include "pipeline/client/printable_text.h"

namespace fulcrum::pipeline {
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
      labels_ = event.round_started().labels();
      doing_ = "training";
      return;
    case v1::CampaignEvent::kStage:
      doing_ =
          absl::StrCat(PrintableLine(event.stage().stage()), " ", event.stage().done(), " of ", event.stage().total());
      return;
    case v1::CampaignEvent::kBatch:
      round_ = event.batch().round();
      round_items_ = event.batch().items();
      round_settled_ = 0;
      doing_ = absl::StrFormat("selected in %.2f s; with the workers", event.batch().seconds());
      return;
    case v1::CampaignEvent::kLabels:
      labels_ = event.labels().labels();
      round_settled_ = event.labels().round_settled();
      round_items_ = event.labels().round_items();
      return;
    case v1::CampaignEvent::kModel:
      return Follow(event.model());
    case v1::CampaignEvent::kItems:
      doing_ = absl::StrCat(event.items().added(), " examples joined the pool");
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
                  " of ", round_items_, " settled, ", labels_, " labels\n");
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
