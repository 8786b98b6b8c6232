#include "pipeline/round/pool_source.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/round/memory_budget.h"
#include "stages/core/status_macros.h"
#include "stages/kernel/features.h"
#include "storage/pool/mapped_pool.h"
#include "storage/pool/pool_block.h"
#include "storage/pool/pool_manifest.h"

namespace fulcrum::pipeline {
absl::Status CheckNoColumnsAreNamed(const std::string& path, const ingest::ColumnOptions& columns) {
  const bool named = !columns.id.empty() || !columns.label.empty() || !columns.cost.empty() ||
                     !columns.payload.empty() || !columns.features.empty() || !columns.ignored.empty();
  if (!named) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", path, "' is an imported pool: the meaning of its columns was set by the ",
                   "import; do not name columns for id, label, cost, payload or features, nor ignored ones"));
}

namespace {

// A sparse element takes 8 bytes on disk and 12 in memory.
constexpr std::uintmax_t kSparseGrowth = 2;

absl::Status CheckFits(const storage::MappedPool& pool, const ingest::PoolOptions& options) {
  const auto rows = static_cast<std::uintmax_t>(pool.rows());
  std::uintmax_t bytes = rows * options.extra_bytes_per_row;
  bytes += rows * static_cast<std::uintmax_t>(pool.shape().features) * sizeof(double);
  if (pool.shape().has_id) bytes += rows * sizeof(std::string);
  // How much of a file with payloads is features is not known before it is read.
  if (pool.shape().sparse && !pool.shape().has_payload) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(pool.folder(), ignored)) {
      if (entry.path().extension() == ".arrow") bytes += kSparseGrowth * entry.file_size(ignored);
    }
  }
  const auto most = static_cast<std::uintmax_t>(options.limits.max_memory_bytes);
  if (bytes <= most) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(pool.folder(), ": ", rows, " rows take about ", bytes >> 20,
                                                   " MiB in memory, and the limit is ", most >> 20, " MiB"));
}

}  // namespace

absl::StatusOr<ingest::Pool> LoadAnyPool(const std::string& path, const ingest::PoolOptions& options) {
  if (!storage::IsPoolFolder(path)) return ingest::LoadPool(path, options);
  FULCRUM_RETURN_IF_ERROR(CheckNoColumnsAreNamed(path, options.columns));
  FULCRUM_ASSIGN_OR_RETURN(const storage::MappedPool pool, storage::MappedPool::Open(path));
  FULCRUM_RETURN_IF_ERROR(CheckFits(pool, options));
  return pool.Load(options.keep_labels, options.keep_payloads);
}

std::unique_ptr<kernel::Features> MakeFeatures(ingest::PoolFeatures features) {
  if (features.is_sparse()) return std::make_unique<kernel::SparseFeatures>(std::move(features.sparse()));
  return std::make_unique<kernel::DenseFeatures>(std::move(features.dense()));
}

namespace {

constexpr std::size_t kShareWorthMapping = 8;

}  // namespace

absl::StatusOr<Matrix<double>> RowsOfPool(const storage::MappedPool& pool, std::span<const RowIndex> rows) {
  Matrix<double> copy(rows.size(), static_cast<std::size_t>(pool.shape().features));
  std::size_t next = 0;
  for (std::size_t block = 0; block < pool.blocks() && next < rows.size(); ++block) {
    const auto first = static_cast<std::size_t>(pool.FirstRowOf(block));
    FULCRUM_ASSIGN_OR_RETURN(const auto batch, pool.Block(block));
    const MatrixView<const float> values = storage::DenseRows(*batch, pool.shape());
    for (; next < rows.size() && rows[next] < first + values.rows(); ++next) {
      std::ranges::copy(values.row(rows[next] - first), copy.row(next).begin());
    }
  }
  return copy;
}

namespace {

absl::StatusOr<ingest::Normalizer> NormalizerFrom(const storage::MappedPool& pool,
                                                  const storage::FeatureStatistics& statistics,
                                                  const std::vector<ingest::NormalizeStep>& steps) {
  if (!pool.shape().sparse && !steps.empty() && steps[0] == ingest::NormalizeStep::kRobust) {
    const RowList sample = ingest::RowsForQuantiles(static_cast<std::size_t>(pool.rows()));
    FULCRUM_ASSIGN_OR_RETURN(const Matrix<double> rows, RowsOfPool(pool, sample));
    return ingest::Normalizer::Fit(steps, rows.view());
  }
  std::vector<double> deviations;
  for (std::size_t i = 0; i < statistics.features(); ++i) deviations.push_back(statistics.DeviationOf(i));
  return ingest::Normalizer::FromStatistics(steps, statistics.means(), std::move(deviations));
}

}  // namespace

absl::StatusOr<ingest::Normalizer> NormalizerOfPool(const storage::MappedPool& pool,
                                                    const std::vector<ingest::NormalizeStep>& steps) {
  FULCRUM_ASSIGN_OR_RETURN(const storage::FeatureStatistics statistics, pool.Statistics());
  return NormalizerFrom(pool, statistics, steps);
}

namespace {

absl::StatusOr<std::optional<MappedSource>> MapShare(storage::MappedPool pool,
                                                     const std::vector<ingest::NormalizeStep>& steps,
                                                     const RowShare& share, std::size_t memory_bytes) {
  FULCRUM_ASSIGN_OR_RETURN(const storage::FeatureStatistics statistics, pool.Statistics());
  absl::StatusOr<ingest::Normalizer> normalizer = NormalizerFrom(pool, statistics, steps);
  // Steps in an order that needs all rows at once: then they are loaded after all.
  if (absl::IsFailedPrecondition(normalizer.status())) return std::nullopt;
  FULCRUM_RETURN_IF_ERROR(normalizer.status());
  MappedSource source;
  FULCRUM_ASSIGN_OR_RETURN(source.ids, pool.Ids());
  FULCRUM_ASSIGN_OR_RETURN(source.features, storage::MappedFeatures::OpenShare(pool, *std::move(normalizer), share,
                                                                               MappedBytesToKeep(memory_bytes)));
  source.feature_names = statistics.names();
  source.pool = std::move(pool);
  source.share = share;
  return source;
}

}  // namespace

absl::StatusOr<std::optional<MappedSource>> MapLargePool(const std::string& path,
                                                         const std::vector<ingest::NormalizeStep>& steps,
                                                         std::size_t memory_bytes) {
  return MapPoolShare(path, steps, memory_bytes, 0, 1);
}

absl::StatusOr<std::optional<MappedSource>> MapPoolShare(const std::string& path,
                                                         const std::vector<ingest::NormalizeStep>& steps,
                                                         std::size_t memory_bytes, std::size_t rank,
                                                         std::size_t ranks) {
  if (!storage::IsPoolFolder(path)) return std::nullopt;
  FULCRUM_ASSIGN_OR_RETURN(storage::MappedPool pool, storage::MappedPool::Open(path));
  const auto rows = static_cast<std::size_t>(pool.rows());
  const std::size_t bytes = sizeof(double) * rows * static_cast<std::size_t>(pool.shape().features);
  if (pool.shape().sparse || bytes <= memory_bytes / kShareWorthMapping) return std::nullopt;
  return MapShare(std::move(pool), steps, ShareOfRank(rows, rank, ranks), memory_bytes);
}

}  // namespace fulcrum::pipeline
