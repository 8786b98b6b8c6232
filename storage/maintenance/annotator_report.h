// What is known about the annotators of a campaign: how good, how fast, how willing they are, and how much they agree.
//
// Derived from the whole log when it is asked for. For one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/consensus/annotator_quality.h"
#include "storage/campaign_reader.h"

namespace fulcrum::storage {

struct AnnotatorSummary {
  std::string name = {};
  consensus::AnnotatorQuality quality = {};
  std::int64_t labels = 0;  ///< submitted, also those that were changed or withdrawn later
  std::int64_t skips = 0;
  std::int64_t expired_leases = 0;
  double cost = 0;
  std::optional<double> answer_seconds = {};  ///< median; from the lease, or the answer before if that is later
  std::optional<double> kappa = {};           ///< mean of Cohen's kappa with others, by shared items
  std::optional<Time> last_seen = {};
  std::string paused = {};  ///< why it gets no tasks; empty: it does

  /// Of the tasks that ended with this annotator.
  double SkipRate() const {
    const double total = static_cast<double>(labels + skips);
    return total > 0 ? static_cast<double>(skips) / total : 0;
  }
};

struct AnnotatorReport {
  std::vector<AnnotatorSummary> annotators = {};  ///< by name
  std::vector<std::string> classes = {};          ///< of the confusion matrices
  std::optional<double> cohen_kappa = {};
  std::optional<double> fleiss_kappa = {};
  std::optional<double> krippendorff_alpha = {};
  std::int64_t votes = 0;  ///< that count
  std::int64_t items = 0;  ///< with votes
};

/// At the end of the log. `classes` are the campaign's.
absl::StatusOr<AnnotatorReport> ReportAnnotators(CampaignReader& reader, const std::vector<std::string>& classes);

}  // namespace fulcrum::storage
