// The curves of an experiment, found by task and strategy. Immutable after construction, thread-safe.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "pipeline/experiment/curve.h"

namespace fulcrum::pipeline {

class CurveSet {
 public:
  /// In the order of the tables: by task, strategy and run as the caller has them.
  explicit CurveSet(std::vector<Curve> curves) : curves_(std::move(curves)) {}

  const std::vector<Curve>& all() const { return curves_; }
  /// The curves of a strategy on a task, by ascending run.
  std::vector<const Curve*> Of(const std::string& task, const std::string& strategy) const;
  /// Names that have curves, in the order they come in; kFullData is no strategy.
  std::vector<std::string> Tasks() const;
  std::vector<std::string> StrategiesOf(const std::string& task) const;

  /// The metric at one round, one entry a run that got there, in the order of runs.
  std::vector<double> ValuesAt(const std::string& task, const std::string& strategy, std::size_t round,
                               Metric metric) const;
  /// The mean of the full-data line; not a number where there is none.
  double FullDataMean(const std::string& task, Metric metric) const;
  /// The last round that every run of the task's strategies has.
  std::size_t LastRound(const std::string& task) const;

 private:
  std::vector<Curve> curves_;
};

}  // namespace fulcrum::pipeline
