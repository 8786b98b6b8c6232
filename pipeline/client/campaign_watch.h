// Follows a campaign to its end, across restarts of the server. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/client/retry.h"

namespace fulcrum::v1 {
class CampaignEvent;
}  // namespace fulcrum::v1

namespace fulcrum::pipeline {

class CampaignCalls;

/// Tells `on_event` what happens. OK when the campaign is done, FailedPrecondition with the reason when it failed; a
/// server that is away is waited for as the policy says.
absl::Status WatchToTheEnd(CampaignCalls& calls, const std::string& name, const RetryPolicy& policy,
                           const Timing& timing, const std::function<void(const v1::CampaignEvent&)>& on_event);

// What `fulcrum campaign watch` prints without a terminal: a line per round, and one for each other event.
//
// What a round learned and what it selected become one line. How far its stages are, each label and the turns between
// selecting and waiting are left out: a round has hundreds of them. Not thread-safe.

class WatchLines {
 public:
  /// The lines that are due after this event, with their ends; often none.
  std::string Follow(const v1::CampaignEvent& event);

 private:
  std::string Follow(const v1::CampaignEvent& event, const v1::BatchCommitted& batch);
  std::string Follow(const v1::CampaignEvent& event, const v1::Campaign& campaign);
  /// What a model that no batch followed is worth telling, once.
  std::string TellModel();

  std::optional<v1::CampaignEvent> model_;
  std::string told_state_;
};

// A learning curve drawn with the characters of a terminal. Stateless and thread-safe.

struct PlotPoint {
  double x = 0;
  double y = 0;  ///< a share: 0.93 is shown as 93%
};

struct PlotSize {
  std::size_t width = 60;  ///< columns of the curve itself
  std::size_t height = 8;
};

/// One bar a point, in eighths of a line, from the smallest y to the largest; where there are more points than columns,
/// each column is the mean of its points. `x_name` names the numbers below: "labels". Empty without points.
std::string DrawCurve(const std::vector<PlotPoint>& points, const std::string& x_name, const PlotSize& size = {});

}  // namespace fulcrum::pipeline

namespace fulcrum::v1 {

// What `fulcrum campaign watch` shows on a terminal: how far the round is, and the learning curve so far.
//
// Follow takes events in; Draw gives the picture. Not thread-safe.

class Campaign;
class CampaignEvent;
class ModelTrained;
}  // namespace fulcrum::v1

namespace fulcrum::pipeline {

class WatchScreen {
 public:
  void Follow(const v1::CampaignEvent& event);
  /// Lines of at most `columns` characters. The curve is of accuracy where the campaign measures it, else of the share
  /// of predictions that a round changed.
  std::string Draw(std::size_t columns) const;

 private:
  struct TrainedModel {
    double labels = 0;
    double changed_share = 0;
    double accuracy = -1;  // below zero where it is not measured
  };

  void Follow(const v1::Campaign& campaign);
  void Follow(const v1::ModelTrained& model);
  std::string DrawRound(std::size_t columns) const;
  std::string DrawModels(std::size_t columns) const;

  std::string name_;
  std::string state_;
  std::string reason_;
  std::string doing_;
  std::int64_t round_ = 0;
  std::int64_t round_items_ = 0;
  std::int64_t round_settled_ = 0;
  std::int64_t labels_ = 0;
  std::int64_t labeled_items_ = 0;
  std::map<std::int64_t, TrainedModel> models_;  // by round: a server that was restarted may tell of one twice
};

/// Cuts every line to so many characters, so that none takes two lines of the terminal.
std::string CutLines(const std::string& text, std::size_t columns);

}  // namespace fulcrum::pipeline
