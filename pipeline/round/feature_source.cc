#include <algorithm>
#include <numeric>
#include <utility>

#include "pipeline/round/pool_source.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

// Sparse features with more values than this share are dense in all but their storage.
constexpr double kDenseShare = 0.25;
constexpr std::size_t kMostDenseBytes = std::size_t{2} << 30;

}  // namespace

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
