#include <algorithm>
#include <cassert>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include "pipeline/experiment/task_data.h"
#include "stages/core/matrix.h"
#include "stages/core/parallel.h"
#include "stages/core/rows.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/normalize.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_tiles.h"

namespace fulcrum::pipeline {
namespace {

// Features known only by their inner products, which are computed once and then looked up.
//
// An experiment needs the same kernel values repeatedly: for every strategy and every round. The inner products with
// the training half, from which all kernels are computed, fit into memory, and the stages read them like features.
// Immutable and thread-safe after construction.

class DotTable final : public kernel::InnerProductFeatures {
 public:
  /// dots(i, j) = x_i . x_j for the first `rows` rows i and all columns j; rows and columns count the same examples,
  /// those with a column first. Shares the table.
  DotTable(std::shared_ptr<const Matrix<double>> dots, std::span<const double> squared_norms, std::size_t dims);

  std::size_t dims() const override { return dims_; }
  /// Each of `b` has a column.
  void WriteInnerProducts(std::span<const RowIndex> a, std::span<const RowIndex> b,
                          MutableMatrixView out) const override;

 private:
  std::shared_ptr<const Matrix<double>> dots_;
  std::size_t dims_;
};

DotTable::DotTable(std::shared_ptr<const Matrix<double>> dots, std::span<const double> squared_norms, std::size_t dims)
    : dots_(std::move(dots)), dims_(dims) {
  assert(squared_norms.size() <= dots_->rows());
  squared_norms_.assign(squared_norms.begin(), squared_norms.end());
}

void DotTable::WriteInnerProducts(std::span<const RowIndex> a, std::span<const RowIndex> b,
                                  MutableMatrixView out) const {
  bool neighbours = true;
  for (std::size_t j = 1; j < b.size() && neighbours; ++j) neighbours = b[j] == b[0] + j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double* const from = dots_->row(a[i]).data();
    double* const to = out.row(i).data();
    if (neighbours) {
      if (!b.empty()) std::copy_n(from + b[0], b.size(), to);
      continue;
    }
    for (std::size_t j = 0; j < b.size(); ++j) to[j] = from[b[j]];
  }
}

constexpr std::size_t kColumnsPerTask = 256;

/// The training half, then the test half, one row per example.
Matrix<double> BothHalves(const TaskData& data, const Split& split) {
  Matrix<double> rows(split.train.size() + split.test.size(), data.features.cols());
  std::size_t to = 0;
  for (const RowList* half : {&split.train, &split.test}) {
    for (const RowIndex row : *half) std::ranges::copy(data.features.row(row), rows.row(to++).begin());
  }
  return rows;
}

/// With the statistics of the first `train` rows.
absl::StatusOr<Matrix<double>> NormalizeHalves(const std::string& normalize, std::size_t train, Matrix<double> rows) {
  FULCRUM_ASSIGN_OR_RETURN(const auto steps, ingest::ParseNormalization(normalize));
  absl::StatusOr<ingest::Normalizer> normalizer = ingest::Normalizer::Fit(steps, rows.view().Rows(0, train));
  if (absl::IsFailedPrecondition(normalizer.status())) {
    FULCRUM_ASSIGN_OR_RETURN(normalizer, ingest::Normalizer::FitInPlace(steps, rows.view().Rows(0, train)));
    normalizer->Apply(rows.view().Rows(train, rows.rows() - train));
    return rows;
  }
  FULCRUM_RETURN_IF_ERROR(normalizer.status());
  ingest::PoolFeatures features(std::move(rows));
  normalizer->Apply(features);
  return std::move(features.dense());
}

/// out(i, j) = x_i . x_j for all rows and the first `columns` of them; what is symmetric is computed once.
Matrix<double> InnerProducts(const kernel::Features& features, std::size_t columns) {
  RowList rows(features.rows());
  std::iota(rows.begin(), rows.end(), RowIndex{0});
  Matrix<double> dots(rows.size(), columns);
  const kernel::PackedRows packed = features.Pack(rows);
  kernel::ParallelForTiles<double>(
      rows.size(), columns, [&](std::size_t row, std::size_t row_count, std::size_t column, std::size_t column_count) {
        if (row + row_count <= column) return;
        kernel::MultiplyRows(packed, row, packed, column, dots.view().Block(row, column, row_count, column_count));
      });
  // Both triangles must have the same value, whatever the rounding of a tile.
  ParallelForBlocks(columns, kColumnsPerTask, [&](std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) {
      for (std::size_t j = i + 1; j < columns; ++j) dots(i, j) = dots(j, i);
    }
  });
  return dots;
}

/// The first `train` rows and all rows, which share a table of inner products if that is not too large.
PreparedFeatures SharedProducts(Matrix<double> rows, std::size_t train, std::size_t most_table_bytes) {
  if (rows.rows() * train * sizeof(double) > most_table_bytes) {
    auto pool = std::make_shared<const kernel::DenseFeatures>(Matrix<double>::CopyOf(rows.view().Rows(0, train)));
    return {std::move(pool), std::make_shared<const kernel::DenseFeatures>(std::move(rows))};
  }
  const kernel::DenseFeatures features(std::move(rows));
  const auto dots = std::make_shared<const Matrix<double>>(InnerProducts(features, train));
  return {std::make_shared<const DotTable>(dots, features.squared_norms().first(train), features.dims()),
          std::make_shared<const DotTable>(dots, features.squared_norms(), features.dims())};
}

}  // namespace

std::size_t RunData::EstimateBytes(const TaskData& data, const Split& split, bool tuned) {
  const std::size_t train = split.train.size(), all = train + split.test.size();
  // A tuned strategy still uses one while those that are kept are made for others.
  const std::size_t tables = tuned ? kVariantsKept + 1 : 1;
  const std::size_t table = tables * std::min(all * train * sizeof(double), kMostTableBytes);
  // Two kernels of the training half at a time: a strategy's groups, and the whole half behind the full-data line.
  return table + all * data.features.cols() * sizeof(double) + 2 * train * train * sizeof(double);
}

absl::StatusOr<RunData> RunData::Make(const TaskData& data, const Split& split, const std::string& normalize,
                                      std::size_t most_table_bytes) {
  const std::size_t train = split.train.size();
  RunData run;
  run.most_table_bytes_ = most_table_bytes;
  run.class_count_ = data.class_names.size();
  run.positive_ = data.positive;
  for (const RowIndex row : split.train) run.answers_.push_back(data.labels[row]);
  for (const RowIndex row : split.test) run.test_labels_.push_back(data.labels[row]);
  for (const RowIndex row : split.start) {
    const auto at = std::ranges::lower_bound(split.train, row) - split.train.begin();
    run.start_.push_back(static_cast<RowIndex>(at));
  }
  Matrix<double> rows = BothHalves(data, split);
  if (normalize.empty()) {
    run.raw_ = std::move(rows);
    return run;
  }
  FULCRUM_ASSIGN_OR_RETURN(rows, NormalizeHalves(normalize, train, std::move(rows)));
  run.features_ = SharedProducts(std::move(rows), train, most_table_bytes);
  return run;
}

absl::StatusOr<ingest::PoolFeatures> RunData::RawRows(std::span<const RowIndex> rows) const {
  return ingest::PoolFeatures(CopyRows(raw_.view(), rows));
}

absl::StatusOr<std::shared_ptr<const ingest::Normalizer>> RunData::NormalizerFor(const std::string& normalize) const {
  FULCRUM_ASSIGN_OR_RETURN(const auto steps, ingest::ParseNormalization(normalize));
  FULCRUM_ASSIGN_OR_RETURN(ingest::Normalizer normalizer, ingest::Normalizer::Fit(steps, raw_.view().Rows(0, rows())));
  return std::make_shared<const ingest::Normalizer>(std::move(normalizer));
}

absl::StatusOr<PreparedFeatures> RunData::Prepare(const std::string& normalize) const {
  const std::scoped_lock lock(variants_->mutex);
  auto& last_used = variants_->last_used;
  const auto found = std::ranges::find(last_used, normalize, &std::pair<std::string, PreparedFeatures>::first);
  if (found != last_used.end()) {
    last_used.splice(last_used.begin(), last_used, found);
    return last_used.front().second;
  }
  if (last_used.size() == kVariantsKept) last_used.pop_back();
  FULCRUM_ASSIGN_OR_RETURN(Matrix<double> normalized, NormalizeHalves(normalize, rows(), raw_.Clone()));
  last_used.emplace_front(normalize, SharedProducts(std::move(normalized), rows(), most_table_bytes_));
  return last_used.front().second;
}

}  // namespace fulcrum::pipeline
