// The labels of a campaign, summed up for people: by class, by annotator and over time, how much annotators agree, and
// how often the model was right about what it selected.
//
// A function of the campaign's log and of the records of its rounds; thread-safe.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "fulcrum/v1/report_service.pb.h"
#include "pipeline/campaign/campaign.h"

namespace fulcrum::pipeline {

/// Reads the whole label log. The model is compared with the labels of the last 100 rounds.
absl::StatusOr<v1::GetLabelReportResponse> ReportLabels(Campaign& campaign);

/// The last report of a few campaigns, because every open page asks for it whenever labels arrive. One that took long
/// to compute is not computed again before ten times as long has passed: the report of a campaign with millions of
/// labels may be some seconds old, as its sequence number shows.
class LabelReports {
 public:
  absl::StatusOr<v1::GetLabelReportResponse> Get(Campaign& campaign);

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    std::mutex mutex = {};                        ///< held while the report is computed
    std::weak_ptr<const CampaignPool> pool = {};  ///< another campaign of the name has another
    Clock::time_point fresh_until = {};
    std::shared_ptr<const v1::GetLabelReportResponse> report = {};
  };

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Entry>> last_;  // by campaign
};

}  // namespace fulcrum::pipeline
