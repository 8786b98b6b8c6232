#include "tests/unit/stages/select/small_pool.h"

#include <algorithm>

#include "stages/core/random.h"
#include "tests/support/matrices.h"

namespace fulcrum::select {

SmallPool::SmallPool(const SmallPoolSettings& settings)
    : features_(testing::RandomMatrix(settings.rows, settings.dims, settings.seed)),
      kernel_(settings.kernel),
      class_count_(settings.classes),
      labels_(settings.rows, kUnlabeled) {
  Random random = Random::Fork(settings.seed, 1);
  for (std::size_t row = 0; row < settings.rows; ++row) {
    const bool labeled = row < settings.classes * settings.labels_per_class;
    const auto predicted =
        static_cast<ClassIndex>(labeled ? row / settings.labels_per_class : random.Below(settings.classes));
    predicted_.push_back(predicted);
    if (labeled) labels_[row] = predicted;
    confidence_.push_back(0.5 + random.Uniform() / 2);
    pool_leverage_.push_back(random.Uniform());
  }
  Random more = Random::Fork(settings.seed, 3);
  probabilities_ = Matrix<double>(settings.rows, settings.classes);
  for (std::size_t row = 0; row < settings.rows; ++row) {
    margin_.push_back(more.Uniform() * 2);
    double sum = 0;
    for (double& p : probabilities_.row(row)) sum += p = more.Uniform();
    for (double& p : probabilities_.row(row)) p /= sum;
  }
  Random leverage = Random::Fork(settings.seed, 2);
  for (std::size_t row = 0; row < settings.rows; ++row) group_leverage_of_row_.push_back(leverage.Uniform() / 2);
  BuildGroups(settings.shuffle_groups ? &leverage : nullptr);
}

namespace {

Matrix<double> RowsInOrder(ConstMatrixView values, std::span<const RowIndex> order) {
  Matrix<double> ordered(order.size(), values.cols());
  for (std::size_t i = 0; i < order.size(); ++i) std::ranges::copy(values.row(order[i]), ordered.row(i).begin());
  return ordered;
}

template <typename T>
std::vector<T> InOrder(const std::vector<T>& values, std::span<const RowIndex> order) {
  std::vector<T> ordered;
  for (const RowIndex row : order) ordered.push_back(values[row]);
  return ordered;
}

}  // namespace

SmallPool::SmallPool(const SmallPool& other, std::span<const RowIndex> order)
    : features_(RowsInOrder(other.features_.values(), order)),
      kernel_(other.kernel_),
      class_count_(other.class_count_),
      labels_(InOrder(other.labels_, order)),
      predicted_(InOrder(other.predicted_, order)),
      confidence_(InOrder(other.confidence_, order)),
      margin_(InOrder(other.margin_, order)),
      probabilities_(RowsInOrder(other.probabilities_.view(), order)),
      pool_leverage_(InOrder(other.pool_leverage_, order)),
      group_leverage_of_row_(InOrder(other.group_leverage_of_row_, order)) {
  BuildGroups(nullptr);
}

void SmallPool::BuildGroups(Random* shuffle) {
  for (std::size_t c = 0; c < class_count_; ++c) {
    RowList rows;
    for (std::size_t row = 0; row < labels_.size(); ++row) {
      if (predicted_[row] == static_cast<ClassIndex>(c)) rows.push_back(static_cast<RowIndex>(row));
    }
    if (shuffle != nullptr) shuffle->Shuffle(std::span<RowIndex>(rows));
    const Matrix<double> group_features = RowsInOrder(features_.values(), rows);
    group_kernels_.push_back(testing::NaiveKernel(kernel_, group_features.view(), group_features.view()));
    group_leverage_.push_back(InOrder(group_leverage_of_row_, rows));
    group_rows_.push_back(std::move(rows));
  }
  for (std::size_t c = 0; c < class_count_; ++c) {
    groups_.push_back({.class_index = static_cast<ClassIndex>(c),
                       .rows = group_rows_[c],
                       .leverage = group_leverage_[c],
                       .rank = 3 + c,
                       .kernel = group_kernels_[c].view()});
  }
}

Candidates SmallPool::candidates(std::size_t batch) const {
  Candidates candidates;
  candidates.features = &features_;
  candidates.leverage_kernel = kernel_;
  candidates.classifier_kernel = kernel_;
  candidates.class_count = class_count_;
  candidates.labels = labels_;
  candidates.predicted = predicted_;
  candidates.confidence = confidence_;
  candidates.margin = margin_;
  candidates.probabilities = probabilities_.view();
  candidates.groups = groups_;
  candidates.pool_leverage = pool_leverage_;
  candidates.batch = batch;
  return candidates;
}

std::vector<RowIndex> RowsOf(const Selection& selection) {
  std::vector<RowIndex> rows;
  for (const Pick& pick : selection.picks) rows.push_back(pick.row);
  return rows;
}

}  // namespace fulcrum::select
