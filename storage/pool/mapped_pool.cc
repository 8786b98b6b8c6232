#include "storage/pool/mapped_pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "arrow/array.h"
#include "arrow/io/file.h"
#include "arrow/ipc/reader.h"
#include "arrow/record_batch.h"
#include "arrow/type.h"
#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/columns/column_values.h"
#include "stages/linalg/blas.h"
#include "storage/pool/pool_block.h"
#include "storage/pool/pool_manifest.h"

namespace fulcrum::storage {
namespace {

void CopyDense(MatrixView<const float> from, MutableMatrixView to) {
  constexpr std::size_t kRowsPerCopy = 1024;
  ParallelForBlocks(from.rows(), kRowsPerCopy, [&](std::size_t first, std::size_t count) {
    for (std::size_t row = first; row < first + count; ++row) {
      const std::span<const float> values = from.row(row);
      std::copy(values.begin(), values.end(), to.row(row).begin());
    }
  });
}

void AppendSparse(const arrow::RecordBatch& batch, const PoolShape& shape, SparseMatrix& to) {
  const PoolColumns columns = ColumnsOf(shape);
  const auto& indices = static_cast<const arrow::ListArray&>(*batch.column(columns.features));
  const auto& values = static_cast<const arrow::ListArray&>(*batch.column(columns.values));
  const std::int32_t* index = static_cast<const arrow::Int32Array&>(*indices.values()).raw_values();
  const float* value = static_cast<const arrow::FloatArray&>(*values.values()).raw_values();
  for (std::int64_t row = 0; row < batch.num_rows(); ++row) {
    to.columns.insert(to.columns.end(), index + indices.value_offset(row), index + indices.value_offset(row + 1));
    to.values.insert(to.values.end(), value + values.value_offset(row), value + values.value_offset(row + 1));
    to.offsets.push_back(to.values.size());
  }
}

/// An unknown cost counts as 0.
void AppendCosts(const arrow::Array& column, std::vector<double>& costs) {
  const auto& values = static_cast<const arrow::DoubleArray&>(column);
  for (std::int64_t row = 0; row < values.length(); ++row) costs.push_back(values.IsValid(row) ? values.Value(row) : 0);
}

}  // namespace

absl::StatusOr<MappedPool> MappedPool::Open(const std::string& folder) {
  MappedPool pool;
  pool.folder_ = folder;
  FULCRUM_ASSIGN_OR_RETURN(pool.manifest_, ReadManifest(folder));
  if (pool.manifest_.parts.empty()) return absl::DataLossError(absl::StrCat(folder, ": the pool has no files"));
  for (const PoolPart& part : pool.manifest_.parts) FULCRUM_RETURN_IF_ERROR(pool.OpenPart(part));
  return pool;
}

absl::Status MappedPool::OpenPart(const PoolPart& part) {
  const std::string path = absl::StrCat(folder_, "/", part.file);
  const std::string doing = absl::StrCat("cannot open '", path, "'");
  FULCRUM_ASSIGN_OR_RETURN(
      const auto file, ingest::FromArrow(arrow::io::MemoryMappedFile::Open(path, arrow::io::FileMode::READ), doing));
  FULCRUM_ASSIGN_OR_RETURN(const std::int64_t bytes, ingest::FromArrow(file->GetSize(), doing));
  if (bytes != part.bytes) {
    return absl::DataLossError(absl::StrCat(doing, ": it has ", bytes, " bytes and the pool's manifest says ",
                                            part.bytes, "; restore it, or import the pool again"));
  }
  FULCRUM_ASSIGN_OR_RETURN(const auto reader, ingest::FromArrow(arrow::ipc::RecordBatchFileReader::Open(file), doing));
  FULCRUM_ASSIGN_OR_RETURN(const PoolShape shape, ShapeOf(*reader->schema()));
  if (!readers_.empty() && shape != shape_) return absl::DataLossError(absl::StrCat(doing, ": its columns differ"));
  if (static_cast<std::size_t>(reader->num_record_batches()) != part.blocks.size()) {
    return absl::DataLossError(absl::StrCat(doing, ": it has ", reader->num_record_batches(),
                                            " blocks and the pool's manifest says ", part.blocks.size()));
  }
  shape_ = shape;
  for (std::size_t i = 0; i < part.blocks.size(); ++i) {
    places_.push_back({readers_.size(), static_cast<int>(i)});
    first_rows_.push_back(first_rows_.back() + part.blocks[i].rows);
  }
  readers_.push_back(reader);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<arrow::RecordBatch>> MappedPool::Block(std::size_t block) const {
  const auto [part, index] = places_[block];
  const std::string doing = absl::StrCat("cannot read '", folder_, "/", manifest_.parts[part].file, "', block ", index);
  FULCRUM_ASSIGN_OR_RETURN(const auto batch, ingest::FromArrow(readers_[part]->ReadRecordBatch(index), doing));
  // Cheap: lengths and offsets' ends, not the values.
  FULCRUM_RETURN_IF_ERROR(ingest::FromArrow(batch->Validate(), doing));
  if (batch->num_rows() == first_rows_[block + 1] - first_rows_[block]) return batch;
  return absl::DataLossError(absl::StrCat(doing, ": it has ", batch->num_rows(), " rows and the pool's manifest says ",
                                          first_rows_[block + 1] - first_rows_[block]));
}

absl::StatusOr<FeatureStatistics> MappedPool::Statistics() const {
  FULCRUM_ASSIGN_OR_RETURN(const auto batch, ReadBatchFile(absl::StrCat(folder_, "/", manifest_.statistics_file)));
  return FeatureStatistics::FromBatch(*batch, rows());
}

absl::Status MappedPool::CheckBlock(std::size_t block, const arrow::RecordBatch& batch) const {
  const auto [part, index] = places_[block];
  const std::string name = absl::StrCat("'", folder_, "/", manifest_.parts[part].file, "', block ", index);
  FULCRUM_RETURN_IF_ERROR(ingest::FromArrow(batch.ValidateFull(), absl::StrCat("cannot read ", name)));
  const PoolBlockRecord& record = manifest_.parts[part].blocks[static_cast<std::size_t>(index)];
  if (ChecksumOf(batch) == record.checksum) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(name,
                                          ": its checksum does not fit, it has changed on the disk; restore it, or "
                                          "import the pool again"));
}

absl::Status MappedPool::Verify() const {
  std::vector<absl::Status> outcomes(blocks());
  ParallelForBlocks(blocks(), 1, [&](std::size_t block, std::size_t) {
    const auto batch = Block(block);
    outcomes[block] = batch.ok() ? CheckBlock(block, **batch) : batch.status();
  });
  for (const absl::Status& outcome : outcomes) FULCRUM_RETURN_IF_ERROR(outcome);
  return absl::OkStatus();
}

absl::StatusOr<ingest::RowIds> MappedPool::Ids() const {
  const PoolColumns columns = ColumnsOf(shape_);
  if (columns.id < 0) return ingest::RowIds(static_cast<std::size_t>(rows()));
  arrow::ArrayVector ids;
  for (std::size_t block = 0; block < blocks(); ++block) {
    FULCRUM_ASSIGN_OR_RETURN(const auto batch, Block(block));
    ids.push_back(batch->column(columns.id));
  }
  return ingest::RowIds(std::move(ids));
}

std::size_t MappedPool::BlockOf(std::int64_t row) const {
  const auto after = std::upper_bound(first_rows_.begin(), first_rows_.end(), row);
  return static_cast<std::size_t>(after - first_rows_.begin()) - 1;
}

absl::StatusOr<std::size_t> MappedPool::PayloadBytes(std::int64_t row) const {
  const PoolColumns columns = ColumnsOf(shape_);
  if (columns.payload < 0) return std::size_t{0};
  const std::size_t block = BlockOf(row);
  FULCRUM_ASSIGN_OR_RETURN(const auto batch, Block(block));
  const arrow::Array& payloads = *batch->column(columns.payload);
  const std::int64_t place = row - first_rows_[block];
  if (payloads.IsNull(place)) return std::size_t{0};
  if (payloads.type_id() != arrow::Type::BINARY) {
    FULCRUM_ASSIGN_OR_RETURN(const std::string payload, PayloadOf(row));
    return payload.size();
  }
  return static_cast<std::size_t>(static_cast<const arrow::BinaryArray&>(payloads).value_length(place));
}

absl::StatusOr<std::string> MappedPool::PayloadOf(std::int64_t row) const {
  const PoolColumns columns = ColumnsOf(shape_);
  if (columns.payload < 0) return std::string();
  const std::size_t block = BlockOf(row);
  FULCRUM_ASSIGN_OR_RETURN(const auto batch, Block(block));
  std::vector<std::string> payloads;
  FULCRUM_RETURN_IF_ERROR(
      ingest::AppendPayloadColumn(*batch->column(columns.payload)->Slice(row - first_rows_[block], 1), payloads));
  return payloads[0];
}

absl::StatusOr<std::string> MappedPool::PayloadPart(std::int64_t row, std::size_t first, std::size_t most) const {
  const PoolColumns columns = ColumnsOf(shape_);
  if (columns.payload < 0) return std::string();
  const std::size_t block = BlockOf(row);
  FULCRUM_ASSIGN_OR_RETURN(const auto batch, Block(block));
  const arrow::Array& payloads = *batch->column(columns.payload);
  const std::int64_t place = row - first_rows_[block];
  if (payloads.IsNull(place)) return std::string();
  if (payloads.type_id() != arrow::Type::BINARY) {
    FULCRUM_ASSIGN_OR_RETURN(const std::string payload, PayloadOf(row));
    return first < payload.size() ? payload.substr(first, most) : std::string();
  }
  const std::string_view payload = static_cast<const arrow::BinaryArray&>(payloads).GetView(place);
  return first < payload.size() ? std::string(payload.substr(first, most)) : std::string();
}

absl::StatusOr<std::vector<double>> MappedPool::Costs() const {
  std::vector<double> costs;
  const PoolColumns columns = ColumnsOf(shape_);
  for (std::size_t block = 0; block < blocks() && columns.cost >= 0; ++block) {
    FULCRUM_ASSIGN_OR_RETURN(const auto batch, Block(block));
    AppendCosts(*batch->column(columns.cost), costs);
  }
  return costs;
}

absl::StatusOr<std::uint64_t> MappedPool::ContentFingerprint(std::int64_t row) const {
  const std::size_t block = BlockOf(row);
  FULCRUM_ASSIGN_OR_RETURN(const auto batch, Block(block));
  PoolBlock one;
  FingerprintRows(*batch->Slice(row - first_rows_[block], 1), shape_, one);
  if (!one.content_fingerprints.empty()) return one.content_fingerprints[0];
  return absl::FailedPreconditionError(absl::StrCat("the rows of '", folder_, "' have no ids"));
}

absl::StatusOr<ingest::Pool> MappedPool::Load(bool keep_labels, bool keep_payloads, std::size_t spare_rows) const {
  ingest::Pool pool;
  FULCRUM_ASSIGN_OR_RETURN(const FeatureStatistics statistics, Statistics());
  if (!shape_.sparse) pool.feature_names = statistics.names();
  const PoolColumns columns = ColumnsOf(shape_);
  SparseMatrix sparse;
  sparse.cols = static_cast<std::size_t>(manifest_.features);
  Matrix<double> dense;
  if (!shape_.sparse)
    dense = Matrix<double>::WithCapacity(static_cast<std::size_t>(rows()), static_cast<std::size_t>(shape_.features),
                                         static_cast<std::size_t>(rows()) + spare_rows);
  if (keep_labels && columns.label >= 0) pool.labels.emplace();
  for (std::size_t block = 0; block < blocks(); ++block) {
    FULCRUM_ASSIGN_OR_RETURN(const auto batch, Block(block));
    FULCRUM_RETURN_IF_ERROR(CheckBlock(block, *batch));
    if (shape_.sparse) {
      AppendSparse(*batch, shape_, sparse);
    } else {
      CopyDense(DenseRows(*batch, shape_), dense.view().Rows(static_cast<std::size_t>(first_rows_[block]),
                                                             static_cast<std::size_t>(batch->num_rows())));
    }
    if (pool.labels) {
      FULCRUM_RETURN_IF_ERROR(ingest::AppendTextColumn(*batch->column(columns.label), *pool.labels));
    }
    if (keep_payloads && columns.payload >= 0) {
      FULCRUM_RETURN_IF_ERROR(ingest::AppendPayloadColumn(*batch->column(columns.payload), pool.payloads));
    }
    if (keep_payloads && columns.cost >= 0) AppendCosts(*batch->column(columns.cost), pool.costs);
  }
  pool.features = shape_.sparse ? ingest::PoolFeatures(std::move(sparse)) : ingest::PoolFeatures(std::move(dense));
  FULCRUM_ASSIGN_OR_RETURN(pool.ids, Ids());
  return pool;
}

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
