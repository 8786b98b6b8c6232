// Prometheus families made by hand, for figures that are read and not counted. Plain functions.
#pragma once

#include <string>
#include <utility>

#include "prometheus/metric_family.h"

namespace fulcrum::pipeline {

inline prometheus::MetricFamily MakeFamily(prometheus::MetricType type, std::string name, std::string help) {
  prometheus::MetricFamily family;
  family.name = std::move(name);
  family.help = std::move(help);
  family.type = type;
  return family;
}

/// Adds a value of a counter or gauge family, with a label where `label` is not empty.
inline void AddValue(prometheus::MetricFamily& family, double value, const std::string& label = "",
                     const std::string& label_value = "") {
  prometheus::ClientMetric metric;
  if (!label.empty()) metric.label.push_back({label, label_value});
  (family.type == prometheus::MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  family.metric.push_back(std::move(metric));
}

}  // namespace fulcrum::pipeline
