// Two overlapping classes, and rounds on them.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "pipeline/round/round.h"
#include "stages/kernel/features.h"
#include "tests/support/matrices.h"

namespace fulcrum::pipeline {

constexpr std::size_t kRows = 500;
constexpr std::size_t kDims = 4;

/// Two overlapping clouds; even rows are class 0.
inline Matrix<double> TwoClouds() {
  Matrix<double> points = testing::RandomMatrix(kRows, kDims, 1);
  for (std::size_t row = 0; row < kRows; ++row) points(row, 0) += row % 2 == 0 ? -1.5 : 1.5;
  return points;
}

class RoundTest : public ::testing::Test {
 protected:
  RoundTest() : labels_(kRows, kUnlabeled) { LabelRows(0, 20); }

  void LabelRows(std::size_t first, std::size_t count) {
    for (std::size_t row = first; row < first + count; ++row) labels_[row] = static_cast<ClassIndex>(row % 2);
  }
  RoundInput Input() const { return {.class_count = 2, .labels = labels_, .predictions = {}}; }
  static RoundSpec Spec(const std::string& strategy, std::size_t batch) {
    RoundSpec spec;
    spec.strategy = strategy;
    spec.batch = batch;
    spec.leverage_kernel.sigma = 3;
    spec.svm.kernel.sigma = 2;
    return spec;
  }
  static RowList PickedRows(const RoundResult& result) {
    RowList rows;
    for (const select::Pick& pick : result.selection.picks) rows.push_back(pick.row);
    return rows;
  }

  Matrix<double> points_ = TwoClouds();
  kernel::DenseFeatures features_{points_.Clone()};
  std::vector<ClassIndex> labels_;
};

}  // namespace fulcrum::pipeline
