#include "pipeline/operation/daemon_metrics.h"

namespace fulcrum::pipeline {
namespace {

using prometheus::BuildHistogram;
using prometheus::Histogram;

// From a few hundred rows, answered at once, to a pool of millions.
const Histogram::BucketBoundaries& RoundBuckets() {
  static const auto* const buckets =
      new Histogram::BucketBoundaries{0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000};
  return *buckets;
}

// From a disk with a battery behind it to one that is in trouble.
const Histogram::BucketBoundaries& CommitBuckets() {
  static const auto* const buckets =
      new Histogram::BucketBoundaries{0.0003, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.3, 1, 3};
  return *buckets;
}

}  // namespace

DaemonMetrics::DaemonMetrics()
    : registry_(std::make_shared<prometheus::Registry>()),
      rounds_(BuildHistogram()
                  .Name("fulcrum_round_seconds")
                  .Help("Time of a round, from reading the log to the committed batch.")
                  .Register(*registry_)),
      stages_(BuildHistogram()
                  .Name("fulcrum_stage_seconds")
                  .Help("Time in a stage of a round; classes run side by side, so stages need not sum to rounds.")
                  .Register(*registry_)),
      commits_(BuildHistogram()
                   .Name("fulcrum_commit_seconds")
                   .Help("Time of one durable commit of a campaign's store, however many labels it held.")
                   .Register(*registry_)) {}

prometheus::Histogram& DaemonMetrics::Find(Histograms& family, const std::string& campaign, prometheus::Labels labels,
                                           const Histogram::BucketBoundaries& buckets) {
  labels.emplace("campaign", campaign);
  Histogram& found = family.Add(labels, buckets);
  const std::scoped_lock lock(mutex_);
  of_campaigns_[campaign].emplace(&family, &found);
  return found;
}

void DaemonMetrics::ObserveRound(const std::string& campaign, bool warm, double seconds,
                                 std::span<const StageSeconds> stages) {
  Find(rounds_, campaign, {{"start", warm ? "warm" : "cold"}}, RoundBuckets()).Observe(seconds);
  for (const StageSeconds& entry : stages) {
    Find(stages_, campaign, {{"stage", entry.stage}}, RoundBuckets()).Observe(entry.seconds);
  }
}

void DaemonMetrics::ObserveCommit(const std::string& campaign, std::chrono::nanoseconds taken) {
  Find(commits_, campaign, {}, CommitBuckets()).Observe(std::chrono::duration<double>(taken).count());
}

void DaemonMetrics::Forget(const std::string& campaign) {
  const std::scoped_lock lock(mutex_);
  const auto found = of_campaigns_.find(campaign);
  if (found == of_campaigns_.end()) return;
  for (const auto& [family, histogram] : found->second) family->Remove(histogram);
  of_campaigns_.erase(found);
}

}  // namespace fulcrum::pipeline
