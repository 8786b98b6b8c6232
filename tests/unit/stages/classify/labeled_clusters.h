// Small pools for the classifier's tests: overlapping clusters, so that many multipliers reach their bound.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "stages/classify/svm_model.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"

namespace fulcrum::classify {

struct LabeledClusters {
  std::unique_ptr<kernel::DenseFeatures> features;
  std::vector<ClassIndex> truth;  ///< of every row

  ConstMatrixView values() const { return features->values(); }
  /// The truth of the first `count` rows, kUnlabeled for the others.
  std::vector<ClassIndex> LabelsOfFirst(std::size_t count) const;
};

/// Row r belongs to class r mod classes; class means are a distance apart at which the clusters overlap.
LabeledClusters MakeClusters(std::size_t rows, std::size_t dims, std::size_t classes, std::uint64_t seed);

/// 1/2 b' K b - sum |b| by the textbook kernel, from the coefficients of one pair.
double NaiveObjective(const SvmModel& model, std::size_t pair, ConstMatrixView features);

/// Decision values rows x pairs, one kernel value at a time.
Matrix<double> NaiveDecisions(const SvmModel& model, ConstMatrixView support_features, ConstMatrixView features);

/// Largest absolute difference; infinite where the shapes differ.
double LargestDifference(ConstMatrixView a, ConstMatrixView b);

}  // namespace fulcrum::classify
