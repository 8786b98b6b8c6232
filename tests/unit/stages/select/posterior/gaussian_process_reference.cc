#include "tests/unit/stages/select/posterior/gaussian_process_reference.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "tests/support/matrices.h"
#include "tests/unit/stages/select/posterior/dense_inverse.h"

namespace fulcrum::select {

GaussianProcessReference::GaussianProcessReference(const SmallPool& pool, const Candidates& candidates, RowList labeled,
                                                   double noise)
    : kernel_(testing::NaiveKernel(candidates.classifier_kernel, pool.features(), pool.features())),
      labeled_(std::move(labeled)),
      noise_(noise) {
  if (labeled_.empty()) return;
  Matrix<double> among(labeled_.size(), labeled_.size());
  for (std::size_t i = 0; i < labeled_.size(); ++i) {
    for (std::size_t j = 0; j < labeled_.size(); ++j) {
      among(i, j) = kernel_(labeled_[i], labeled_[j]) + (i == j ? noise : 0);
    }
  }
  inverse_ = DenseInverse(among.view());
}

double GaussianProcessReference::Covariance(RowIndex x, RowIndex z) const {
  double covariance = kernel_(x, z);
  for (std::size_t i = 0; i < labeled_.size(); ++i) {
    for (std::size_t j = 0; j < labeled_.size(); ++j) {
      covariance -= kernel_(x, labeled_[i]) * inverse_(i, j) * kernel_(z, labeled_[j]);
    }
  }
  return covariance;
}

double GaussianProcessReference::Mean(const Candidates& candidates, std::size_t class_index, RowIndex row) const {
  double own = 0;
  for (const RowIndex other : labeled_) own += candidates.labels[other] == static_cast<ClassIndex>(class_index) ? 1 : 0;
  const auto all = static_cast<double>(labeled_.size());
  double mean = 0;
  for (std::size_t i = 0; i < labeled_.size(); ++i) {
    for (std::size_t j = 0; j < labeled_.size(); ++j) {
      const bool member = candidates.labels[labeled_[j]] == static_cast<ClassIndex>(class_index);
      mean += kernel_(row, labeled_[i]) * inverse_(i, j) * (member ? all / (2 * own) : -all / (2 * (all - own)));
    }
  }
  return mean;
}

double GaussianProcessReference::Doubt(const Candidates& candidates, RowIndex row) const {
  std::vector<double> means;
  for (std::size_t c = 0; c < candidates.class_count; ++c) means.push_back(Mean(candidates, c, row));
  std::ranges::sort(means, std::greater<>());
  return std::erfc((means[0] - means[1]) / 2 / std::sqrt(2 * (Covariance(row, row) + noise_)));
}

}  // namespace fulcrum::select
