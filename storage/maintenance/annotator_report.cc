#include "storage/maintenance/annotator_report.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "stages/consensus/annotator_quality.h"
#include "stages/core/status_macros.h"
#include "storage/rules/annotator_rules.h"
#include "storage/state/crowd.h"

namespace fulcrum::storage {
namespace {

/// Counts what annotators did, event by event.
class ActivityCounter {
 public:
  absl::Status Count(const Event& event) {
    if (const auto* const granted = std::get_if<LeaseGranted>(&event.body)) {
      (void)granted;
      leased_at_[event.sequence] = event.at;
      summaries_[event.annotator].last_seen = event.at;
    } else if (const auto* const label = std::get_if<LabelSubmitted>(&event.body)) {
      AnnotatorSummary& summary = Seen(event);
      ++summary.labels;
      summary.cost += label->cost;
      EndLease(label->lease, event, label->late);
    } else if (const auto* const skipped = std::get_if<TaskSkipped>(&event.body)) {
      ++Seen(event).skips;
      free_since_[event.annotator] = event.at;
      leased_at_.erase(skipped->lease);
    } else if (const auto* const expired = std::get_if<LeaseExpired>(&event.body)) {
      ++summaries_[event.annotator].expired_leases;
      leased_at_.erase(expired->lease);
    } else if (const auto* const released = std::get_if<LeaseReleased>(&event.body)) {
      leased_at_.erase(released->lease);
    }
    return absl::OkStatus();
  }

  std::map<std::string, AnnotatorSummary> Take() {
    for (auto& [name, seconds] : seconds_) {
      const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
      std::nth_element(seconds.begin(), middle, seconds.end());
      summaries_[name].answer_seconds = *middle;
    }
    return std::move(summaries_);
  }

 private:
  AnnotatorSummary& Seen(const Event& event) {
    AnnotatorSummary& summary = summaries_[event.annotator];
    summary.last_seen = event.at;
    return summary;
  }
  /// A worker that takes several tasks at once works on one after the other.
  void EndLease(std::int64_t lease, const Event& event, bool late) {
    const auto found = leased_at_.find(lease);
    if (found == leased_at_.end()) return;
    Time& free_since = free_since_[event.annotator];
    const Time begun = std::max(found->second, free_since);
    free_since = event.at;
    if (!late) seconds_[event.annotator].push_back(std::chrono::duration<double>(event.at - begun).count());
    leased_at_.erase(found);
  }

  std::map<std::string, AnnotatorSummary> summaries_;
  std::map<std::string, std::vector<double>> seconds_;
  absl::flat_hash_map<std::int64_t, Time> leased_at_;
  std::map<std::string, Time> free_since_;  // when annotators last answered or skipped a task
};

}  // namespace

absl::StatusOr<AnnotatorReport> ReportAnnotators(CampaignReader& reader, const std::vector<std::string>& classes) {
  FULCRUM_RETURN_IF_ERROR(reader.CatchUp());
  const CampaignState& state = reader.state();
  ActivityCounter activity;
  FULCRUM_RETURN_IF_ERROR(
      reader.VisitEvents(1, state.last_sequence(), [&](const Event& event) { return activity.Count(event); }));
  std::map<std::string, AnnotatorSummary> summaries = activity.Take();
  for (const auto& [name, reason] : state.paused()) summaries[name].paused = reason;

  AnnotatorReport report{.classes = classes};
  const GatheredVotes gathered = GatherVotes(state, classes);
  report.votes = static_cast<std::int64_t>(gathered.votes.size());
  report.items = static_cast<std::int64_t>(gathered.items.size());
  if (!gathered.votes.empty() && classes.size() >= 2) {
    const consensus::Consensus consensus = EstimateFrom(gathered, classes.size(), state.crowd());
    auto qualities = consensus::JudgeAnnotators(gathered.Problem(classes.size()), consensus);
    const auto kappa = consensus::MeanCohenKappa(gathered.votes, gathered.annotators.size(), classes.size());
    for (std::size_t a = 0; a < gathered.annotators.size(); ++a) {
      AnnotatorSummary& summary = summaries[gathered.annotators[a]];
      summary.quality = std::move(qualities[a]);
      summary.kappa = kappa.of_annotator[a];
    }
    report.cohen_kappa = kappa.overall;
    report.fleiss_kappa = consensus::FleissKappa(gathered.votes, gathered.items.size(), classes.size());
    report.krippendorff_alpha = consensus::KrippendorffAlpha(gathered.votes, gathered.items.size(), classes.size());
  }
  for (auto& [name, summary] : summaries) {
    summary.name = name;
    report.annotators.push_back(std::move(summary));
  }
  return report;
}

}  // namespace fulcrum::storage
