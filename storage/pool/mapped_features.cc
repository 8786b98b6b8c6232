#include "storage/pool/mapped_features.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "arrow/record_batch.h"
#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"
#include "stages/linalg/blas.h"
#include "storage/pool/pool_block.h"

namespace fulcrum::storage {
namespace {

constexpr std::size_t kRowsPerTask = 512;
// Pages are released once so much may have been touched.
constexpr std::size_t kMostTouchedBytes = std::size_t{64} << 20;
constexpr std::size_t kPageBytes = 4096;
// What a page fault may load with its page (fault_around_bytes of the kernel): rows that are far apart cost so much
// each.
constexpr std::size_t kFaultBytes = std::size_t{64} << 10;

}  // namespace

MappedFeatures::MappedFeatures(ingest::Normalizer normalizer, std::size_t dims, std::size_t keep_bytes)
    : normalizer_(std::move(normalizer)), dims_(dims), keep_bytes_(keep_bytes) {}

absl::StatusOr<std::unique_ptr<MappedFeatures>> MappedFeatures::Open(const MappedPool& pool,
                                                                     ingest::Normalizer normalizer,
                                                                     std::size_t keep_bytes) {
  return OpenShare(pool, std::move(normalizer), ShareOfRank(static_cast<std::size_t>(pool.rows()), 0, 1), keep_bytes);
}

absl::StatusOr<std::unique_ptr<MappedFeatures>> MappedFeatures::OpenShare(const MappedPool& pool,
                                                                          ingest::Normalizer normalizer,
                                                                          const RowShare& share,
                                                                          std::size_t keep_bytes) {
  std::unique_ptr<MappedFeatures> features(
      new MappedFeatures(std::move(normalizer), static_cast<std::size_t>(pool.shape().features), keep_bytes));
  FULCRUM_RETURN_IF_ERROR(features->Add(pool, share));
  return features;
}

absl::StatusOr<std::unique_ptr<MappedFeatures>> MappedFeatures::With(const MappedPool& more) const {
  std::unique_ptr<MappedFeatures> features(new MappedFeatures(normalizer_, dims_, keep_bytes_));
  features->blocks_ = blocks_;
  features->first_rows_ = first_rows_;
  features->squared_norms_ = squared_norms_;
  FULCRUM_RETURN_IF_ERROR(features->Add(more, ShareOfRank(static_cast<std::size_t>(more.rows()), 0, 1)));
  return features;
}

absl::Status MappedFeatures::Add(const MappedPool& pool, const RowShare& share) {
  if (pool.shape().sparse || static_cast<std::size_t>(pool.shape().features) != dims_) {
    return absl::InvalidArgumentError(absl::StrCat("the rows of '", pool.folder(), "' must be dense and have ", dims_,
                                                   " features to be read from the disk"));
  }
  const std::size_t before = first_rows_.back();
  for (std::size_t i = 0; i < pool.blocks(); ++i) {
    const auto begin = static_cast<std::size_t>(pool.FirstRowOf(i));
    const auto end = static_cast<std::size_t>(pool.FirstRowOf(i + 1));
    const std::size_t first = std::max(begin, share.first), last = std::min(end, share.first + share.count);
    if (first >= last) continue;
    FULCRUM_ASSIGN_OR_RETURN(auto batch, pool.Block(i));
    const MatrixView<const float> values = DenseRows(*batch, pool.shape()).Rows(first - begin, last - first);
    first_rows_.push_back(first_rows_.back() + values.rows());
    blocks_.push_back({std::move(batch), values});
  }
  ComputeNorms(before);
  return absl::OkStatus();
}

void MappedFeatures::ComputeNorms(std::size_t before) {
  squared_norms_.resize(first_rows_.back());
  ParallelForBlocks(first_rows_.back() - before, kRowsPerTask, [&](std::size_t first, std::size_t count) {
    RowList rows(count);
    std::iota(rows.begin(), rows.end(), static_cast<RowIndex>(before + first));
    Matrix<double> values(count, dims_);
    CopyNormalized(rows, values.view());
    for (std::size_t i = 0; i < count; ++i) squared_norms_[rows[i]] = linalg::Dot(values.row(i), values.row(i));
  });
}

std::unique_ptr<MappedFeatures> MappedFeatures::NormalizedWith(ingest::Normalizer normalizer) const {
  std::unique_ptr<MappedFeatures> features(new MappedFeatures(std::move(normalizer), dims_, keep_bytes_));
  features->blocks_ = blocks_;
  features->first_rows_ = first_rows_;
  features->ComputeNorms(0);
  return features;
}

template <typename Value>
void MappedFeatures::CopyAsTheyAre(std::span<const RowIndex> rows, MatrixView<Value> out) const {
  std::size_t block = 0, windows = 0;
  std::uintptr_t last_window = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < first_rows_[block] || rows[i] >= first_rows_[block + 1]) block = BlockOf(rows[i]);
    const float* const values = blocks_[block].values.row(rows[i] - first_rows_[block]).data();
    std::copy_n(values, dims_, out.row(i).data());
    const std::uintptr_t window = reinterpret_cast<std::uintptr_t>(values) / kFaultBytes;
    windows += window == last_window ? 0 : 1;
    last_window = window;
  }
  NoteTouched(windows * std::max(kFaultBytes, dims_ * sizeof(float)));
}

std::size_t MappedFeatures::BlockOf(RowIndex row) const {
  const auto after = std::upper_bound(first_rows_.begin(), first_rows_.end(), std::size_t{row});
  return static_cast<std::size_t>(after - first_rows_.begin()) - 1;
}

void MappedFeatures::CopyNormalized(std::span<const RowIndex> rows, MutableMatrixView out) const {
  CopyAsTheyAre(rows, out);
  normalizer_.Apply(out);
}

void MappedFeatures::NoteTouched(std::size_t bytes) const {
  if (StaysInMemory()) return;
  if (touched_bytes_.fetch_add(bytes) + bytes < kMostTouchedBytes) return;
  touched_bytes_ = 0;
  GiveBackPages();
}

void MappedFeatures::GiveBackPages() const {
  for (const Block& block : blocks_) {
    const auto begin = reinterpret_cast<std::uintptr_t>(block.values.data()) / kPageBytes * kPageBytes;
    const auto end = reinterpret_cast<std::uintptr_t>(block.values.data() + block.values.rows() * dims_);
    // The mapping is shared and read-only: what another thread still reads comes back by itself. No harm if it fails.
    (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
}

void MappedFeatures::CopyRows(std::span<const RowIndex> rows, MatrixView<float> out) const {
  if (normalizer_.changes_nothing()) {
    CopyAsTheyAre(rows, out);
    return;
  }
  Matrix<double> values(rows.size(), dims_);
  CopyNormalized(rows, values.view());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::transform(values.row(i).begin(), values.row(i).end(), out.row(i).begin(),
                   [](double value) { return static_cast<float>(value); });
  }
}

kernel::PackedRows MappedFeatures::Pack(std::span<const RowIndex> rows) const {
  Matrix<double> copy(rows.size(), dims_);
  ParallelForBlocks(rows.size(), kRowsPerTask, [&](std::size_t first, std::size_t count) {
    CopyNormalized(rows.subspan(first, count), copy.view().Rows(first, count));
  });
  return kernel::PackedRows(std::move(copy));
}

}  // namespace fulcrum::storage
