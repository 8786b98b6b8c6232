// What the daemon measures as it happens: how long rounds, stages and commits take.
//
// Histograms in a Prometheus registry, with the campaign's name as a label. Thread-safe; observing costs a lock and an
// addition.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "pipeline/round.h"
#include "prometheus/family.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"

namespace fulcrum::pipeline {

class DaemonMetrics {
 public:
  DaemonMetrics();

  /// A round that ended with a batch, and the seconds of its stages.
  void ObserveRound(const std::string& campaign, bool warm, double seconds, std::span<const StageSeconds> stages);
  /// One group of operations on its way to the disk.
  void ObserveCommit(const std::string& campaign, std::chrono::nanoseconds taken);
  /// A campaign that is gone, and of which nothing is observed any more.
  void Forget(const std::string& campaign);

  const prometheus::Registry& registry() const { return *registry_; }

 private:
  using Histograms = prometheus::Family<prometheus::Histogram>;

  /// The one with these labels, which it makes where there is none.
  prometheus::Histogram& Find(Histograms& family, const std::string& campaign, prometheus::Labels labels,
                              const prometheus::Histogram::BucketBoundaries& buckets);

  const std::shared_ptr<prometheus::Registry> registry_;
  Histograms& rounds_;
  Histograms& stages_;
  Histograms& commits_;
  std::mutex mutex_;
  std::map<std::string, std::set<std::pair<Histograms*, prometheus::Histogram*>>> of_campaigns_;
};

}  // namespace fulcrum::pipeline
