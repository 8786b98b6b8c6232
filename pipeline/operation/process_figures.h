// What the system says of this process, under Prometheus' usual names.
//
// Nothing is kept: every scrape reads /proc. Thread-safe.
#pragma once

#include <vector>

#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"

namespace fulcrum::pipeline {

/// Memory, file descriptors and processor time.
class ProcessFigures final : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override;
};

}  // namespace fulcrum::pipeline
