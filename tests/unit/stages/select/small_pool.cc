#include "tests/unit/stages/select/small_pool.h"

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
  BuildGroups(settings);
}

void SmallPool::BuildGroups(const SmallPoolSettings& settings) {
  Random random = Random::Fork(settings.seed, 2);
  std::vector<double> leverage_of_row;
  for (std::size_t row = 0; row < settings.rows; ++row) leverage_of_row.push_back(random.Uniform() / 2);
  for (std::size_t c = 0; c < class_count_; ++c) {
    RowList rows;
    for (std::size_t row = 0; row < settings.rows; ++row) {
      if (predicted_[row] == static_cast<ClassIndex>(c)) rows.push_back(static_cast<RowIndex>(row));
    }
    if (settings.shuffle_groups) random.Shuffle(std::span<RowIndex>(rows));
    Matrix<double> group_features(rows.size(), settings.dims);
    std::vector<double> leverage;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::copy_n(features_.values().row(rows[i]).data(), settings.dims, group_features.row(i).data());
      leverage.push_back(leverage_of_row[rows[i]]);
    }
    group_kernels_.push_back(testing::NaiveKernel(kernel_, group_features.view(), group_features.view()));
    group_rows_.push_back(std::move(rows));
    group_leverage_.push_back(std::move(leverage));
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
