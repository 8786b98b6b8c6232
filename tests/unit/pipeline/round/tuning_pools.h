// Pools with classes that the tests of tuning share.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/round/tuning.h"
#include "stages/core/random.h"
#include "tests/support/matrices.h"

namespace fulcrum::pipeline {

constexpr std::size_t kTuningRows = 400;

/// Class 0 near the origin, class 1 far from it in all directions: unit rows would lose the difference.
inline ingest::PoolFeatures Shells() {
  Matrix<double> points = testing::RandomMatrix(kTuningRows, 6, 3);
  for (std::size_t row = 1; row < kTuningRows; row += 2) {
    for (double& value : points.row(row)) value *= 3;
  }
  return ingest::PoolFeatures(std::move(points));
}

/// The texts as rows of a table: the classes are found in 400 columns of rare words.
inline ingest::PoolFeatures DenseTexts() {
  Matrix<double> counts = Matrix<double>::Zero(kTuningRows, 420);
  Random random(5);
  for (std::size_t row = 0; row < kTuningRows; ++row) {
    for (std::size_t i = 0; i < 30; ++i) counts(row, random.Below(20)) += 1;
    for (std::size_t i = 0; i < 8; ++i) counts(row, 20 + 200 * (row % 2) + random.Below(200)) += 1;
  }
  return ingest::PoolFeatures(std::move(counts));
}

inline std::vector<ClassIndex> FirstLabels(std::size_t count) {
  std::vector<ClassIndex> labels(kTuningRows, kUnlabeled);
  for (std::size_t row = 0; row < count; ++row) labels[row] = static_cast<ClassIndex>(row % 2);
  return labels;
}

/// A pool on the disk, whose statistics do not say in how many rows a word is.
class WithoutTfidf final : public FeatureSource {
 public:
  explicit WithoutTfidf(const ingest::PoolFeatures& features) : memory_(features) {}
  std::size_t rows() const override { return memory_.rows(); }
  absl::StatusOr<ingest::PoolFeatures> RawRows(std::span<const RowIndex> rows) const override {
    return memory_.RawRows(rows);
  }
  absl::StatusOr<std::shared_ptr<const ingest::Normalizer>> NormalizerFor(const std::string& normalize) const override {
    if (normalize.starts_with("tfidf")) return absl::FailedPreconditionError("no counts of documents");
    return memory_.NormalizerFor(normalize);
  }
  absl::StatusOr<PreparedFeatures> Prepare(const std::string& normalize) const override {
    return memory_.Prepare(normalize);
  }

 private:
  MemoryFeatureSource memory_;
};

}  // namespace fulcrum::pipeline
