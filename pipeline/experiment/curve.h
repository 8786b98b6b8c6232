// What one run of one strategy gives: how good the classifier is after every round. Plain values.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace fulcrum::pipeline {

/// The name under which a classifier that knows the whole training half is recorded, beside the strategies.
inline constexpr char kFullData[] = "full-data";

struct CurvePoint {
  std::size_t round = 0;  ///< 0 is the start, before any query
  std::size_t labels = 0;
  double accuracy = 0;                ///< on the test half
  double f1 = 0;                      ///< of the positive class, on the test half
  double queried_positive_share = 0;  ///< among all queries so far; not a number before the first
  double train_seconds = 0;
  double predict_seconds = 0;
  double select_seconds = 0;  ///< to choose the queries of this round; 0 at the start
};

struct Curve {
  std::string task;
  std::string strategy;  ///< as the experiment calls it, or kFullData
  std::size_t run = 0;
  std::vector<CurvePoint> points;
};

/// What curves are compared by.
enum class Metric { kAccuracy, kF1 };

inline double ValueOf(const CurvePoint& point, Metric metric) {
  return metric == Metric::kAccuracy ? point.accuracy : point.f1;
}

}  // namespace fulcrum::pipeline
