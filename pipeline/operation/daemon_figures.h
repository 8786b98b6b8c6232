// What is true of the daemon at the moment somebody asks: campaigns by state, leases, labels, queues.
//
// Nothing is kept: every scrape reads the campaigns' last published figures. Thread-safe; what it looks at
// must outlive it.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "pipeline/campaign/campaign_book.h"
#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"

namespace fulcrum::pipeline {

class DaemonFigures final : public prometheus::Collectable {
 public:
  /// Lengths of the queues that belong to no campaign.
  struct Queues {
    std::function<std::size_t()> calls = {};    ///< waiting for a thread of the executor
    std::function<std::size_t()> workers = {};  ///< waiting for tasks
  };

  DaemonFigures(const CampaignBook& campaigns, Queues queues) : campaigns_(campaigns), queues_(std::move(queues)) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const CampaignBook& campaigns_;
  const Queues queues_;
};

}  // namespace fulcrum::pipeline
