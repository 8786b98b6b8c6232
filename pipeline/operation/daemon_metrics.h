// What the daemon measures as it happens: how long rounds, stages and commits take.
//
// Histograms in a Prometheus registry, with the campaign's name as a label. Thread-safe; observing costs a lock and an
// addition.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>

#include "pipeline/round.h"
#include "prometheus/family.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"

namespace fulcrum::pipeline {

class DaemonMetrics {
 public:
  DaemonMetrics();

  /// A round that ended with a batch, and the seconds of its stages.
  void ObserveRound(const std::string& campaign, bool warm, double seconds, std::span<const StageSeconds> stages) const;
  /// One group of operations on its way to the disk.
  void ObserveCommit(const std::string& campaign, std::chrono::nanoseconds taken) const;

  const prometheus::Registry& registry() const { return *registry_; }

 private:
  const std::shared_ptr<prometheus::Registry> registry_;
  prometheus::Family<prometheus::Histogram>& rounds_;
  prometheus::Family<prometheus::Histogram>& stages_;
  prometheus::Family<prometheus::Histogram>& commits_;
};

}  // namespace fulcrum::pipeline
