// A small pool with two classes or more and a classifier of it, for the tests of streams.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "stages/classify/classifier.h"
#include "stages/core/matrix.h"
#include "stages/core/random.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/stream/stream_model.h"

namespace fulcrum::stream {

/// Clusters of normal rows, one a class, their means 2 apart in different directions.
inline std::vector<double> ClusterRow(std::size_t dims, std::size_t cluster, Random& random) {
  std::vector<double> row(dims);
  for (std::size_t j = 0; j < dims; ++j) row[j] = random.Normal() + (j == cluster ? 2 : 0);
  return row;
}

struct TestPool {
  /// Every `label_every`-th row has its label.
  TestPool(std::size_t rows, std::size_t dims, std::size_t classes, std::size_t label_every, double sigma,
           bool probabilities = true)
      : random(17) {
    Matrix<double> values(rows, dims);
    for (std::size_t i = 0; i < rows; ++i) {
      const std::vector<double> row = ClusterRow(dims, i % classes, random);
      std::ranges::copy(row, values.row(i).begin());
      labels.push_back(i / classes % label_every == 0 ? static_cast<ClassIndex>(i % classes) : kUnlabeled);
    }
    features = std::make_unique<kernel::DenseFeatures>(std::move(values));
    classify::SvmParameters parameters;
    parameters.kernel.sigma = sigma;
    const auto classifier = classify::MakeClassifier(parameters, *features);
    svm = classifier->Train(labels, classes).value();
    if (probabilities) classifier->FitProbabilities(svm).IgnoreError();
  }

  StreamPool View() const { return {.features = *features, .labels = labels, .classifier = &svm}; }
  std::shared_ptr<const StreamModel> Model(const StreamModelOptions& options = {}) const {
    return StreamModel::Make(View(), options).value();
  }
  std::vector<double> Row(std::size_t row) const {
    const auto values = features->values().row(row);
    return {values.begin(), values.end()};
  }

  Random random;
  std::vector<ClassIndex> labels;
  std::unique_ptr<kernel::DenseFeatures> features;
  classify::SvmModel svm;
};

}  // namespace fulcrum::stream
