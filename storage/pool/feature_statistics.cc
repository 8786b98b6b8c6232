#include <algorithm>
#include <cmath>
#include <limits>

#include "arrow/array.h"
#include "arrow/buffer.h"
#include "arrow/builder.h"
#include "arrow/record_batch.h"
#include "arrow/type.h"
#include "storage/pool/pool_manifest.h"

namespace fulcrum::storage {
namespace {

// Rows that stay in the cache between the pass for the mean and the one for the squares.
constexpr std::size_t kRowsPerPass = 512;

std::shared_ptr<arrow::Array> ToArray(const std::vector<double>& values) {
  return std::make_shared<arrow::DoubleArray>(static_cast<std::int64_t>(values.size()),
                                              arrow::Buffer::FromVector(std::vector<double>(values)));
}

std::shared_ptr<arrow::Array> ToTexts(const std::vector<std::string>& texts, std::size_t size) {
  arrow::StringBuilder builder;
  for (std::size_t i = 0; i < size; ++i) {
    if (!(i < texts.size() ? builder.Append(texts[i]) : builder.AppendNull()).ok()) throw std::bad_alloc();
  }
  return builder.Finish().ValueOrDie();
}

std::vector<double> ToVector(const arrow::Array& array) {
  const double* values = static_cast<const arrow::DoubleArray&>(array).raw_values();
  return std::vector<double>(values, values + array.length());
}

std::shared_ptr<arrow::Schema> StatisticsSchema() {
  return arrow::schema({arrow::field("mean", arrow::float64()), arrow::field("squares", arrow::float64()),
                        arrow::field("minimum", arrow::float64()), arrow::field("maximum", arrow::float64()),
                        arrow::field("name", arrow::utf8())});
}

}  // namespace

FeatureStatistics FeatureStatistics::OfDense(MatrixView<const float> rows) {
  FeatureStatistics all;
  const std::size_t cols = rows.cols();
  for (std::size_t first = 0; first < rows.rows(); first += kRowsPerPass) {
    const MatrixView<const float> some = rows.Rows(first, std::min(kRowsPerPass, rows.rows() - first));
    FeatureStatistics part;
    part.rows_ = static_cast<std::int64_t>(some.rows());
    part.means_.assign(cols, 0.0);
    part.squares_.assign(cols, 0.0);
    std::vector<float> low(some.row(0).begin(), some.row(0).end()), high = low;
    for (std::size_t row = 0; row < some.rows(); ++row) {
      const float* values = some.row(row).data();
      for (std::size_t col = 0; col < cols; ++col) {
        part.means_[col] += values[col];
        low[col] = std::min(low[col], values[col]);
        high[col] = std::max(high[col], values[col]);
      }
    }
    for (double& mean : part.means_) mean /= static_cast<double>(some.rows());
    for (std::size_t row = 0; row < some.rows(); ++row) {
      const float* values = some.row(row).data();
      for (std::size_t col = 0; col < cols; ++col) {
        const double distance = values[col] - part.means_[col];
        part.squares_[col] += distance * distance;
      }
    }
    part.minima_.assign(low.begin(), low.end());
    part.maxima_.assign(high.begin(), high.end());
    all.Merge(part);
  }
  return all;
}

FeatureStatistics FeatureStatistics::OfSparse(std::int64_t rows, std::span<const std::int32_t> columns,
                                              std::span<const float> values) {
  FeatureStatistics all;
  all.rows_ = rows;
  std::int32_t largest = -1;
  for (std::int32_t column : columns) largest = std::max(largest, column);
  all.Widen(static_cast<std::size_t>(largest + 1));
  std::vector<std::int64_t> counts(all.features(), 0);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const auto column = static_cast<std::size_t>(columns[i]);
    all.means_[column] += values[i];
    const double value = values[i];
    all.minima_[column] = counts[column] == 0 ? value : std::min(all.minima_[column], value);
    all.maxima_[column] = counts[column] == 0 ? value : std::max(all.maxima_[column], value);
    ++counts[column];
  }
  for (std::size_t column = 0; column < all.features(); ++column) {
    all.means_[column] /= static_cast<double>(rows);
    if (counts[column] == rows) continue;
    all.minima_[column] = std::min(all.minima_[column], 0.0);
    all.maxima_[column] = std::max(all.maxima_[column], 0.0);
    all.squares_[column] = static_cast<double>(rows - counts[column]) * all.means_[column] * all.means_[column];
  }
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const auto column = static_cast<std::size_t>(columns[i]);
    const double distance = values[i] - all.means_[column];
    all.squares_[column] += distance * distance;
  }
  return all;
}

void FeatureStatistics::Widen(std::size_t features) {
  for (std::vector<double>* column : {&means_, &squares_, &minima_, &maxima_}) column->resize(features, 0.0);
}

void FeatureStatistics::Merge(const FeatureStatistics& other) {
  if (other.rows_ == 0) return;
  if (rows_ == 0) {
    *this = other;
    return;
  }
  Widen(std::max(features(), other.features()));
  const auto mine = static_cast<double>(rows_), theirs = static_cast<double>(other.rows_), all = mine + theirs;
  for (std::size_t i = 0; i < features(); ++i) {
    const bool there = i < other.features();
    const double distance = (there ? other.means_[i] : 0) - means_[i];
    means_[i] += distance * theirs / all;
    squares_[i] += (there ? other.squares_[i] : 0) + distance * distance * mine * theirs / all;
    minima_[i] = std::min(minima_[i], there ? other.minima_[i] : 0);
    maxima_[i] = std::max(maxima_[i], there ? other.maxima_[i] : 0);
  }
  rows_ += other.rows_;
}

double FeatureStatistics::DeviationOf(std::size_t feature) const {
  return rows_ > 1 ? std::sqrt(squares_[feature] / static_cast<double>(rows_ - 1)) : 0;
}

std::shared_ptr<arrow::RecordBatch> FeatureStatistics::ToBatch(const std::vector<std::string>& names) const {
  return arrow::RecordBatch::Make(StatisticsSchema(), static_cast<std::int64_t>(features()),
                                  arrow::ArrayVector{ToArray(means_), ToArray(squares_), ToArray(minima_),
                                                     ToArray(maxima_), ToTexts(names, features())});
}

absl::StatusOr<FeatureStatistics> FeatureStatistics::FromBatch(const arrow::RecordBatch& batch, std::int64_t rows) {
  if (!batch.schema()->Equals(*StatisticsSchema(), /*check_metadata=*/false)) {
    return absl::DataLossError("these are not the statistics of a pool");
  }
  FeatureStatistics statistics;
  statistics.rows_ = rows;
  statistics.means_ = ToVector(*batch.column(0));
  statistics.squares_ = ToVector(*batch.column(1));
  statistics.minima_ = ToVector(*batch.column(2));
  statistics.maxima_ = ToVector(*batch.column(3));
  const auto& names = static_cast<const arrow::StringArray&>(*batch.column(4));
  for (std::int64_t i = 0; i < names.length() && names.IsValid(i); ++i) statistics.names_.push_back(names.GetString(i));
  return statistics;
}

}  // namespace fulcrum::storage
