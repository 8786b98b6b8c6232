#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "pipeline/round/pool_source.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

// Sparse features with more values than this share are dense in all but their storage.
constexpr double kDenseShare = 0.25;
constexpr std::size_t kMostDenseBytes = std::size_t{2} << 30;

// Non-negative features with more zeros than this share may be counts of words.
constexpr double kZerosOfCounts = 0.5;
// Dense rows with so many zeros and columns are texts, if they are counts; above the second share, whatever they are.
constexpr double kZerosOfTexts = 0.8, kZerosOfWeightedTexts = 0.95;
constexpr std::size_t kFewestWords = 200;
// With more columns than this, quantiles cost more than they gain: each column says little.
constexpr std::size_t kMostQuantileColumns = 100;
// A column becomes up to 15, so bins are for pools of a moderate size.
constexpr std::size_t kMostBinnedBytes = std::size_t{256} << 20;
// As many different whole numbers as a column of categories has.
constexpr std::size_t kFewestCategories = 3, kMostCategories = 10;

/// What the values of features say about where they come from.
struct ValueStatistics {
  bool negative = false;
  double zeros = 0;         ///< share of all values
  double small_counts = 0;  ///< share of the other values that are 1, 2 or 3

  bool look_like_counts() const { return !negative && zeros > kZerosOfCounts; }
  /// Dense rows that are texts. The pixels of an image have many zeros too, but few other values are small numbers.
  bool look_like_texts() const {
    return !negative && ((zeros > kZerosOfTexts && small_counts > 0.5) || zeros > kZerosOfWeightedTexts);
  }
};

ValueStatistics StatisticsOf(const ingest::PoolFeatures& features) {
  std::size_t others = 0, counts = 0;
  ValueStatistics found;
  const auto look = [&](double value) {
    if (value == 0) return;
    ++others;
    counts += value == 1 || value == 2 || value == 3 ? 1 : 0;
    found.negative = found.negative || value < 0;
  };
  if (features.is_sparse()) {
    for (const double value : features.sparse().values) look(value);
  } else {
    for (std::size_t row = 0; row < features.rows(); ++row) {
      for (const double value : features.dense().row(row)) look(value);
    }
  }
  const double cells = static_cast<double>(features.rows()) * static_cast<double>(features.cols());
  if (cells > 0) found.zeros = 1 - static_cast<double>(others) / cells;
  if (others > 0) found.small_counts = static_cast<double>(counts) / static_cast<double>(others);
  return found;
}

/// Whether half of the columns have 3 to 10 different whole numbers, as categories that are coded by numbers do.
bool HasCategories(ConstMatrixView features) {
  std::size_t columns = 0;
  for (std::size_t col = 0; col < features.cols(); ++col) {
    std::set<double> values;
    for (std::size_t row = 0; row < features.rows() && values.size() <= kMostCategories; ++row) {
      const double value = features(row, col);
      values.insert(value == std::round(value) ? value : std::numeric_limits<double>::infinity());
    }
    columns += values.size() >= kFewestCategories && values.size() <= kMostCategories && std::isfinite(*values.rbegin())
                   ? 1
                   : 0;
  }
  return 2 * columns >= features.cols();
}

}  // namespace

Normalizations NormalizationsFor(const ingest::PoolFeatures& features, std::size_t rows) {
  const ValueStatistics values = StatisticsOf(features);
  const bool sparse = features.is_sparse();
  if (!sparse && features.cols() >= kFewestWords && values.look_like_texts()) {
    // A deviation of a rare word is tiny, so a z-score makes its single occurrences the largest values of all.
    return {{"tfidf,unit", "unit", "none", "zscore,unit"}, true};
  }
  std::vector<std::string> all;
  if (sparse) {
    all = {"unit", "none"};
  } else {
    all = {"robust", "zscore", "zscore,unit", "none"};
  }
  if (!sparse && HasCategories(features.dense().view())) all.push_back("onehot");
  const std::size_t binned_bytes = sizeof(double) * ingest::QuantileColumns::kMostBins * features.cols() * rows;
  if (!sparse && features.cols() <= kMostQuantileColumns) {
    all.push_back("quantile");
    if (binned_bytes <= kMostBinnedBytes) all.push_back("bins");
  }
  if (values.look_like_counts()) all.insert(sparse ? all.begin() : all.end(), "tfidf,unit");
  return {std::move(all), sparse};
}

RowList AllRows(std::size_t count) {
  RowList rows(count);
  std::iota(rows.begin(), rows.end(), RowIndex{0});
  return rows;
}

Matrix<double> CopyRows(ConstMatrixView features, std::span<const RowIndex> rows) {
  Matrix<double> copy(rows.size(), features.cols());
  for (std::size_t i = 0; i < rows.size(); ++i) std::ranges::copy(features.row(rows[i]), copy.row(i).begin());
  return copy;
}

SparseMatrix CopyRows(const SparseMatrix& features, std::span<const RowIndex> rows) {
  SparseMatrix copy;
  copy.cols = features.cols;
  for (const RowIndex row : rows) {
    const auto columns = features.ColumnsOf(row);
    const auto values = features.ValuesOf(row);
    copy.columns.insert(copy.columns.end(), columns.begin(), columns.end());
    copy.values.insert(copy.values.end(), values.begin(), values.end());
    copy.offsets.push_back(copy.values.size());
  }
  return copy;
}

void MakeDenseIfWorthwhile(ingest::PoolFeatures& features) {
  if (!features.is_sparse()) return;
  const double cells = static_cast<double>(features.rows()) * static_cast<double>(features.cols());
  if (cells * sizeof(double) > static_cast<double>(kMostDenseBytes)) return;
  if (static_cast<double>(features.sparse().nonzeros()) > kDenseShare * cells) features.MakeDense();
}

absl::StatusOr<ingest::PoolFeatures> MemoryFeatureSource::RawRows(std::span<const RowIndex> rows) const {
  if (features_.is_sparse()) return ingest::PoolFeatures(CopyRows(features_.sparse(), rows));
  return ingest::PoolFeatures(CopyRows(features_.dense().view(), rows));
}

absl::StatusOr<std::shared_ptr<const ingest::Normalizer>> MemoryFeatureSource::NormalizerFor(
    const std::string& normalize) const {
  FULCRUM_ASSIGN_OR_RETURN(const auto steps, ingest::ParseNormalization(normalize));
  auto fitted = features_.is_sparse() ? ingest::Normalizer::Fit(steps, features_.sparse())
                                      : ingest::Normalizer::Fit(steps, features_.dense().view());
  FULCRUM_RETURN_IF_ERROR(fitted.status());
  return std::make_shared<const ingest::Normalizer>(*std::move(fitted));
}

absl::StatusOr<PreparedFeatures> MemoryFeatureSource::Prepare(const std::string& normalize) const {
  FULCRUM_ASSIGN_OR_RETURN(const auto normalizer, NormalizerFor(normalize));
  FULCRUM_ASSIGN_OR_RETURN(ingest::PoolFeatures copy, RawRows(AllRows(rows())));
  normalizer->Apply(copy);
  const std::shared_ptr<const kernel::Features> features = MakeFeatures(std::move(copy));
  return PreparedFeatures{features, features};
}

absl::StatusOr<ingest::PoolFeatures> MappedFeatureSource::RawRows(std::span<const RowIndex> rows) const {
  Matrix<float> values(rows.size(), raw_.dims());
  raw_.CopyRows(rows, values.view());
  Matrix<double> copy(rows.size(), raw_.dims());
  for (std::size_t i = 0; i < rows.size(); ++i) std::ranges::copy(values.row(i), copy.row(i).begin());
  return ingest::PoolFeatures(std::move(copy));
}

absl::StatusOr<std::shared_ptr<const ingest::Normalizer>> MappedFeatureSource::NormalizerFor(
    const std::string& normalize) const {
  FULCRUM_ASSIGN_OR_RETURN(const auto steps, ingest::ParseNormalization(normalize));
  FULCRUM_ASSIGN_OR_RETURN(ingest::Normalizer normalizer, NormalizerOfPool(first_, steps));
  return std::make_shared<const ingest::Normalizer>(std::move(normalizer));
}

absl::StatusOr<PreparedFeatures> MappedFeatureSource::Prepare(const std::string& normalize) const {
  FULCRUM_ASSIGN_OR_RETURN(const auto normalizer, NormalizerFor(normalize));
  const std::shared_ptr<const kernel::Features> features = raw_.NormalizedWith(*normalizer);
  return PreparedFeatures{features, features};
}

}  // namespace fulcrum::pipeline
