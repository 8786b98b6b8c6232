#include "tests/unit/stages/classify/labeled_clusters.h"

#include <cmath>
#include <limits>
#include <utility>

#include "tests/support/matrices.h"

namespace fulcrum::classify {
namespace {

Matrix<double> SupportFeatures(const SvmModel& model, ConstMatrixView features) {
  Matrix<double> support(model.support_rows.size(), features.cols());
  for (std::size_t s = 0; s < support.rows(); ++s) {
    std::copy_n(features.row(model.support_rows[s]).data(), features.cols(), support.row(s).data());
  }
  return support;
}

}  // namespace

std::vector<ClassIndex> LabeledClusters::LabelsOfFirst(std::size_t count) const {
  std::vector<ClassIndex> labels(truth.size(), kUnlabeled);
  std::copy_n(truth.begin(), count, labels.begin());
  return labels;
}

LabeledClusters MakeClusters(std::size_t rows, std::size_t dims, std::size_t classes, std::uint64_t seed) {
  Matrix<double> values = testing::RandomMatrix(rows, dims, seed);
  LabeledClusters clusters;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t class_index = row % classes;
    clusters.truth.push_back(static_cast<ClassIndex>(class_index));
    values(row, class_index % dims) += 1.5;
    for (double& value : values.row(row)) value /= std::sqrt(static_cast<double>(dims));
  }
  clusters.features = std::make_unique<kernel::DenseFeatures>(std::move(values));
  return clusters;
}

double NaiveObjective(const SvmModel& model, std::size_t pair, ConstMatrixView features) {
  const Matrix<double> support = SupportFeatures(model, features);
  const Matrix<double> values = testing::NaiveKernel(model.kernel, support.view(), support.view());
  double objective = 0;
  for (std::size_t i = 0; i < support.rows(); ++i) {
    objective -= std::abs(model.coefficients(i, pair));
    for (std::size_t j = 0; j < support.rows(); ++j) {
      objective += 0.5 * model.coefficients(i, pair) * model.coefficients(j, pair) * values(i, j);
    }
  }
  return objective;
}

Matrix<double> NaiveDecisions(const SvmModel& model, ConstMatrixView support_features, ConstMatrixView features) {
  const Matrix<double> support = SupportFeatures(model, support_features);
  const Matrix<double> values = testing::NaiveKernel(model.kernel, features, support.view());
  Matrix<double> decisions(features.rows(), model.pairs.size());
  for (std::size_t i = 0; i < features.rows(); ++i) {
    for (std::size_t p = 0; p < model.pairs.size(); ++p) {
      decisions(i, p) = -model.pairs[p].rho;
      for (std::size_t s = 0; s < support.rows(); ++s) decisions(i, p) += values(i, s) * model.coefficients(s, p);
    }
  }
  return decisions;
}

double LargestDifference(ConstMatrixView a, ConstMatrixView b) {
  if (a.rows() != b.rows() || a.cols() != b.cols()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < a.rows(); ++i) {
    for (std::size_t j = 0; j < a.cols(); ++j) largest = std::max(largest, std::abs(a(i, j) - b(i, j)));
  }
  return largest;
}

}  // namespace fulcrum::classify
