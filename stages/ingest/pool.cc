#include "stages/ingest/pool.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "arrow/memory_pool.h"
#include "arrow/record_batch.h"
#include "arrow/type.h"
#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/columns/column_values.h"
#include "stages/ingest/formats/table_source.h"

namespace fulcrum::ingest {

std::string Pool::FeatureName(std::size_t feature) const {
  return feature < feature_names.size() ? feature_names[feature] : absl::StrCat(feature + 1);
}

namespace {

/// What a reader may hold at a time while the pool that it fills has the rest.
std::int64_t ReaderBytes(std::size_t max_memory_bytes) {
  return static_cast<std::int64_t>(max_memory_bytes / 2);
}

}  // namespace

absl::StatusOr<Pool> LoadPool(const std::string& path, const PoolOptions& options) {
  return LoadPool(std::vector<std::string>{path}, options);
}

absl::StatusOr<Pool> LoadPool(const std::vector<std::string>& sources, const PoolOptions& options) {
  InputLimits reading = options.limits;
  reading.max_memory_bytes = ReaderBytes(static_cast<std::size_t>(options.limits.max_memory_bytes));
  FULCRUM_ASSIGN_OR_RETURN(const std::unique_ptr<TableSource> source, OpenSources(sources, options.columns, reading));
  FULCRUM_ASSIGN_OR_RETURN(ColumnRoles roles, AssignRoles(*source->schema(), options.columns, source->path()));
  PoolBuilder builder(*source, std::move(roles), options);
  // Millions of equal rows take a few bytes in a file: what it claims is checked before any of it is read.
  if (const auto rows = source->ClaimedRows()) {
    FULCRUM_RETURN_IF_ERROR(builder.CheckMemory(static_cast<std::size_t>(*rows)));
  }
  for (;;) {
    FULCRUM_ASSIGN_OR_RETURN(const auto batch, source->Next());
    if (batch == nullptr) return builder.Finish();
    FULCRUM_RETURN_IF_ERROR(builder.Append(*batch));
    if (options.on_progress) options.on_progress(builder.rows());
  }
}

namespace {

constexpr std::size_t kRowsPerCopy = 1024;
// Blocks this large are returned to the system as soon as they are freed, so that the pool is never in memory twice.
constexpr std::size_t kBlockBytes = std::size_t{64} << 20;
constexpr BadCellRequest kShownBadCells = {.most = ProblemList::kMostShown, .one_a_row = false};

/// Rows of a matrix begin at cache lines, so a narrow one takes more than its values.
std::size_t DenseRowBytes(std::size_t width) {
  return Matrix<double>(0, width).stride() * sizeof(double);
}

}  // namespace

PoolBuilder::PoolBuilder(const TableSource& source, ColumnRoles roles, const PoolOptions& options)
    : source_(source),
      roles_(std::move(roles)),
      max_memory_bytes_(static_cast<std::size_t>(options.limits.max_memory_bytes)),
      extra_bytes_per_row_(options.extra_bytes_per_row) {
  if (!options.keep_labels) roles_.label = -1;
  if (!options.keep_payloads) roles_.payload = roles_.cost = -1;
}

// A few bytes of a file can claim billions of rows.
absl::Status PoolBuilder::CheckMemory(std::size_t rows) const {
  std::size_t row_bytes = extra_bytes_per_row_;
  row_bytes += roles_.sparse() ? sizeof(std::size_t) : DenseRowBytes(std::max<std::size_t>(roles_.width(), 1));
  for (const int column : {roles_.id, roles_.label, roles_.payload}) row_bytes += column >= 0 ? sizeof(std::string) : 0;
  if (roles_.cost >= 0) row_bytes += sizeof(double);
  const std::size_t held = sparse_.nonzeros() * (sizeof(double) + sizeof(std::int32_t)) + text_bytes_ +
                           static_cast<std::size_t>(CappedPool(ReaderBytes(max_memory_bytes_))->bytes_allocated());
  if (held <= max_memory_bytes_ && rows <= (max_memory_bytes_ - held) / row_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      source_.path(), ": ", rows, " rows", rows_ < rows && rows_ > 0 ? " and more" : "", " of ", roles_.width(),
      " features do not fit the ", max_memory_bytes_ >> 20, " MiB that a pool may take in memory"));
}

absl::Status PoolBuilder::Append(const arrow::RecordBatch& batch) {
  FULCRUM_RETURN_IF_ERROR(AppendFeatures(batch));
  if (roles_.id >= 0) FULCRUM_RETURN_IF_ERROR(AppendText(batch, roles_.id, ids_));
  if (roles_.label >= 0) FULCRUM_RETURN_IF_ERROR(AppendText(batch, roles_.label, labels_));
  if (roles_.payload >= 0) FULCRUM_RETURN_IF_ERROR(AppendText(batch, roles_.payload, payloads_));
  if (roles_.cost >= 0) FULCRUM_RETURN_IF_ERROR(AppendCosts(batch));
  rows_ += static_cast<std::size_t>(batch.num_rows());
  if (rows_ > std::numeric_limits<RowIndex>::max()) {
    return absl::DataLossError(absl::StrCat(source_.path(), " has more than 4 billion rows; split it"));
  }
  return absl::OkStatus();
}

absl::Status PoolBuilder::AppendFeatures(const arrow::RecordBatch& batch) {
  std::vector<BadCell> bad;
  if (roles_.sparse()) {
    FULCRUM_RETURN_IF_ERROR(CheckMemory(rows_ + static_cast<std::size_t>(batch.num_rows())));
    bad = DecodeSparse(batch, roles_.parts[0], sparse_, kShownBadCells);
  } else {
    SettleWidths(batch, roles_);
    if (roles_.width() == 0) {
      return absl::DataLossError(absl::StrCat(source_.path(), ": its lists are empty; they must hold the features"));
    }
    FULCRUM_RETURN_IF_ERROR(CheckMemory(rows_ + static_cast<std::size_t>(batch.num_rows())));
    bad = DecodeFeatures<double>(batch, roles_.parts, NextRows(static_cast<std::size_t>(batch.num_rows())),
                                 kShownBadCells);
  }
  return bad.empty() ? absl::OkStatus() : BadCellsError(bad);
}

/// Room for the rows of a batch behind those before it.
MutableMatrixView PoolBuilder::NextRows(std::size_t count) {
  if (blocks_.empty() || blocks_.back().values.rows() - blocks_.back().rows < count) {
    // A table of one batch is the pool as it is.
    const std::size_t rows = blocks_.empty() ? count : std::max(count, kBlockBytes / DenseRowBytes(roles_.width()));
    blocks_.push_back({Matrix<double>(rows, roles_.width())});
  }
  Block& block = blocks_.back();
  const MutableMatrixView room = block.values.view().Rows(block.rows, count);
  block.rows += count;
  return room;
}

absl::StatusOr<Pool> PoolBuilder::Finish() {
  if (rows_ == 0) {
    return absl::DataLossError(absl::StrCat(source_.path(), " has a header but no rows; add a line for each example"));
  }
  FULCRUM_RETURN_IF_ERROR(CheckIdsAreThere());
  Pool pool;
  pool.ids = roles_.id >= 0 ? RowIds(ids_) : RowIds(rows_);
  FULCRUM_RETURN_IF_ERROR(CheckIdsAreUnique(pool.ids));
  pool.feature_names = roles_.FeatureNames();
  pool.features = JoinBlocks();
  if (pool.features.cols() == 0) {
    return absl::DataLossError(absl::StrCat(source_.path(), ": no row has a feature"));
  }
  if (roles_.label >= 0) pool.labels = std::move(labels_);
  pool.payloads = std::move(payloads_);
  pool.costs = std::move(costs_);
  return pool;
}

absl::Status PoolBuilder::AppendCosts(const arrow::RecordBatch& batch) {
  FeaturePart part;
  part.column = roles_.cost;
  Matrix<double> costs(static_cast<std::size_t>(batch.num_rows()), 1);
  const std::vector<BadCell> bad = DecodeFeatures<double>(batch, {part}, costs.view(), kShownBadCells);
  if (!bad.empty()) {
    const std::vector<std::uint64_t> row = {rows_ + bad[0].row};
    return absl::DataLossError(absl::StrCat(source_.path(), ", ", source_.PlacesOfRows(row)[0], ", column '",
                                            batch.schema()->field(roles_.cost)->name(), "': ", bad[0].complaint,
                                            "; the cost of a label must be a finite number"));
  }
  for (std::size_t row = 0; row < costs.rows(); ++row) costs_.push_back(costs(row, 0));
  return absl::OkStatus();
}

absl::Status PoolBuilder::AppendText(const arrow::RecordBatch& batch, int column, std::vector<std::string>& text) {
  const std::size_t before = text.size();
  const absl::Status status = column == roles_.payload ? AppendPayloadColumn(*batch.column(column), text)
                                                       : AppendTextColumn(*batch.column(column), text);
  if (!status.ok()) {
    return absl::Status(
        absl::IsResourceExhausted(status) ? status.code() : absl::StatusCode::kDataLoss,
        absl::StrCat(source_.path(), ", column '", batch.schema()->field(column)->name(), "' ", status.message()));
  }
  for (std::size_t i = before; i < text.size(); ++i) text_bytes_ += text[i].size();
  return absl::OkStatus();
}

absl::Status PoolBuilder::BadCellsError(const std::vector<BadCell>& bad) const {
  std::vector<std::uint64_t> rows;
  for (const BadCell& cell : bad) rows.push_back(rows_ + cell.row);
  const std::vector<std::string> places = source_.PlacesOfRows(rows);
  ProblemList problems;
  for (std::size_t i = 0; i < bad.size(); ++i) {
    problems.Add(absl::StrCat(places[i], ", column '", roles_.parts[bad[i].part].name, "': ", bad[i].complaint));
  }
  return problems.ToStatus(source_.path(),
                           "every feature must be a finite number: correct the values, leave out the rows, or name the "
                           "columns they are in among the ignored columns");
}

absl::Status PoolBuilder::CheckIdsAreThere() const {
  std::vector<std::uint64_t> missing;
  for (std::size_t row = 0; row < ids_.size() && missing.size() < ProblemList::kMostShown; ++row) {
    if (ids_[row].empty()) missing.push_back(row);
  }
  ProblemList problems;
  for (const std::string& place : source_.PlacesOfRows(missing)) {
    problems.Add(absl::StrCat(place, ", column 'id': the value is missing or not UTF-8 text"));
  }
  return problems.ToStatus(source_.path(), "give every row an id of its own, or remove the column to use row numbers");
}

absl::Status PoolBuilder::CheckIdsAreUnique(const RowIds& ids) const {
  const auto repeated = ids.FindRepeated(ProblemList::kMostShown);
  std::vector<std::uint64_t> rows;
  for (const auto& [first, again] : repeated) rows.insert(rows.end(), {first, again});
  const std::vector<std::string> places = source_.PlacesOfRows(rows);
  ProblemList problems;
  for (std::size_t i = 0; i < repeated.size(); ++i) {
    problems.Add(absl::StrCat(places[2 * i + 1], ", column 'id': '", ids.TextOf(repeated[i].again), "' is the id of ",
                              places[2 * i], " too"));
  }
  return problems.ToStatus(source_.path(), "ids must differ: remove the copies, or give each row an id of its own");
}

// Each block is freed as soon as it is copied, so that the pool is not in memory twice.
PoolFeatures PoolBuilder::JoinBlocks() {
  if (roles_.sparse()) return PoolFeatures(std::move(sparse_));
  if (blocks_.size() == 1) return PoolFeatures(std::move(blocks_.front().values));
  Matrix<double> joined(rows_, roles_.width());
  std::size_t first_row = 0;
  for (Block& block : blocks_) {
    const MutableMatrixView target = joined.view().Rows(first_row, block.rows);
    ParallelForBlocks(block.rows, kRowsPerCopy, [&](std::size_t first, std::size_t count) {
      CopyMatrix<double>(std::as_const(block).values.view().Rows(first, count), target.Rows(first, count));
    });
    first_row += block.rows;
    block = {};
  }
  return PoolFeatures(std::move(joined));
}

}  // namespace fulcrum::ingest
