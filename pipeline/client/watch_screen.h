// What `fulcrum campaign watch` shows on a terminal: how far the round is, and the learning curve so far.
//
// Follow takes events in; Draw gives the picture. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "pipeline/client/curve_plot.h"

namespace fulcrum::v1 {
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
  std::map<std::int64_t, TrainedModel> models_;  // by round: a server that was restarted may tell of one twice
};

/// Cuts every line to so many characters, so that none takes two lines of the terminal.
std::string CutLines(const std::string& text, std::size_t columns);

}  // namespace fulcrum::pipeline
