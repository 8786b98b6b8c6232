// Current figures of the daemon: campaigns by state, leases, labels, queues.
//
// Stateless: every scrape reads the last published figures of the campaigns. Thread-safe; the objects it reads must
// outlive it.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pipeline/campaign/campaign_registry.h"
#include "pipeline/round/round.h"
#include "pipeline/server/grpc_server.h"
#include "prometheus/collectable.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/histogram.h"
#include "prometheus/metric_family.h"
#include "prometheus/registry.h"

namespace fulcrum::pipeline {

class DaemonFigures final : public prometheus::Collectable {
 public:
  /// Lengths of the queues that belong to no campaign.
  struct Queues {
    std::function<std::size_t()> calls = {};    ///< waiting for a thread of the executor
    std::function<std::size_t()> workers = {};  ///< waiting for tasks
  };

  DaemonFigures(const CampaignRegistry& campaigns, Queues queues) : campaigns_(campaigns), queues_(std::move(queues)) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const CampaignRegistry& campaigns_;
  const Queues queues_;
};

// Durations of rounds, stages, commits and calls, and counts of calls.
//
// In a Prometheus registry, with the campaign's name or the method as a label. Thread-safe; observing costs a lock and
// an addition.

class DaemonMetrics {
 public:
  DaemonMetrics();

  /// Records a round that ended with a batch, and the seconds of its stages.
  void ObserveRound(const std::string& campaign, bool warm, double seconds, std::span<const StageSeconds> stages);
  /// Records one group commit.
  void ObserveCommit(const std::string& campaign, std::chrono::nanoseconds taken);
  /// Counts a call that ended. Streams have no duration: they last as long as the client stays.
  void ObserveCall(const CallReport& call);
  /// Removes the figures of a deleted campaign.
  void Forget(const std::string& campaign);

  const prometheus::Registry& registry() const { return *registry_; }

 private:
  using Histograms = prometheus::Family<prometheus::Histogram>;

  /// Returns the histogram with these labels; creates it if needed.
  prometheus::Histogram& Find(Histograms& family, const std::string& campaign, prometheus::Labels labels,
                              const prometheus::Histogram::BucketBoundaries& buckets);

  const std::shared_ptr<prometheus::Registry> registry_;
  Histograms& rounds_;
  Histograms& stages_;
  Histograms& commits_;
  prometheus::Family<prometheus::Counter>& calls_;
  Histograms& call_seconds_;
  std::mutex mutex_;
  std::map<std::pair<std::string_view, int>, prometheus::Counter*> call_counters_;
  std::map<std::string_view, prometheus::Histogram*> call_histograms_;
  std::map<std::string, std::set<std::pair<Histograms*, prometheus::Histogram*>>> of_campaigns_;
};

// Figures of the process, under Prometheus' usual names.
//
// Stateless: every scrape reads /proc. Thread-safe.

/// Memory, file descriptors and processor time.
class ProcessFigures final : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override;
};

// Prometheus families for figures that are read rather than counted. Plain functions.

inline prometheus::MetricFamily MakeFamily(prometheus::MetricType type, std::string name, std::string help) {
  prometheus::MetricFamily family;
  family.name = std::move(name);
  family.help = std::move(help);
  family.type = type;
  return family;
}

/// Adds a value of a counter or gauge family, with a label if `label` is not empty.
inline void AddValue(prometheus::MetricFamily& family, double value, const std::string& label = "",
                     const std::string& label_value = "") {
  prometheus::ClientMetric metric;
  if (!label.empty()) metric.label.push_back({label, label_value});
  (family.type == prometheus::MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  family.metric.push_back(std::move(metric));
}

}  // namespace fulcrum::pipeline
