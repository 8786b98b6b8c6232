#include "stages/ingest/pool.h"

#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "arrow/record_batch.h"
#include "arrow/type.h"
#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/feature_block.h"
#include "stages/ingest/problem_list.h"
#include "stages/ingest/reader_registry.h"
#include "stages/ingest/text_column.h"

namespace fulcrum::ingest {
namespace {

constexpr char kIdColumn[] = "id";
constexpr char kLabelColumn[] = "label";
constexpr std::size_t kRowsPerCopy = 1024;

struct PoolColumns {
  int id = -1;  // -1 where there is none
  int label = -1;
  std::vector<int> features;
  std::vector<std::string> feature_names;
};

// "ID" as a feature would be a disaster nobody notices.
absl::Status CheckNotMisspelled(const std::string& name, const TableSource& source) {
  for (const char* special : {kIdColumn, kLabelColumn}) {
    if (absl::AsciiStrToLower(name) == special) {
      return absl::DataLossError(absl::StrCat(source.path(), ": the column '", name, "' would be a feature; name it '",
                                              special, "' if it is the ", special,
                                              ", and something else if it is a feature"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<PoolColumns> FindColumns(const TableSource& source) {
  PoolColumns columns;
  for (std::size_t i = 0; i < source.column_names().size(); ++i) {
    const std::string& name = source.column_names()[i];
    if (name == kIdColumn) {
      columns.id = static_cast<int>(i);
    } else if (name == kLabelColumn) {
      columns.label = static_cast<int>(i);
    } else {
      FULCRUM_RETURN_IF_ERROR(CheckNotMisspelled(name, source));
      columns.features.push_back(static_cast<int>(i));
      columns.feature_names.push_back(name);
    }
  }
  if (columns.features.empty()) {
    return absl::DataLossError(absl::StrCat(source.path(),
                                            " has no feature columns: 'id' and 'label' are no features; add at least "
                                            "one column of numbers"));
  }
  return columns;
}

// Collects a pool batch by batch.
class PoolBuilder {
 public:
  PoolBuilder(const TableSource& source, PoolColumns columns, bool keep_labels)
      : source_(source), columns_(std::move(columns)) {
    if (!keep_labels) columns_.label = -1;
  }

  absl::Status Append(const arrow::RecordBatch& batch) {
    if (blocks_.empty()) FULCRUM_RETURN_IF_ERROR(CheckTypes(batch));
    Matrix<double> block(static_cast<std::size_t>(batch.num_rows()), columns_.features.size());
    const auto bad = DecodeFeatures(batch, columns_.features, block.view(), ProblemList::kMostShown);
    if (!bad.empty()) return BadCellsError(bad);
    if (columns_.id >= 0) FULCRUM_RETURN_IF_ERROR(AppendText(batch, columns_.id, kIdColumn, ids_));
    if (columns_.label >= 0) FULCRUM_RETURN_IF_ERROR(AppendText(batch, columns_.label, kLabelColumn, labels_));
    rows_ += block.rows();
    if (rows_ > std::numeric_limits<RowIndex>::max()) {
      return absl::DataLossError(absl::StrCat(source_.path(), " has more than 4 billion rows; split it"));
    }
    blocks_.push_back(std::move(block));
    return absl::OkStatus();
  }

  std::size_t rows() const { return rows_; }

  absl::StatusOr<Pool> Finish() {
    if (rows_ == 0) {
      return absl::DataLossError(
          absl::StrCat(source_.path(), " has a header but no rows; add a line for each example"));
    }
    FULCRUM_RETURN_IF_ERROR(CheckIdsAreThere());
    Pool pool;
    pool.ids = columns_.id >= 0 ? RowIds(std::move(ids_)) : RowIds(rows_);
    FULCRUM_RETURN_IF_ERROR(CheckIdsAreUnique(pool.ids));
    pool.feature_names = std::move(columns_.feature_names);
    pool.features = JoinBlocks();
    if (columns_.label >= 0) pool.labels = std::move(labels_);
    return pool;
  }

 private:
  absl::Status CheckTypes(const arrow::RecordBatch& batch) const {
    for (std::size_t i = 0; i < columns_.features.size(); ++i) {
      const arrow::DataType& type = *batch.schema()->field(columns_.features[i])->type();
      if (IsFeatureType(type)) continue;
      return absl::DataLossError(absl::StrCat(source_.path(), ", column '", columns_.feature_names[i],
                                              "': values of the type ", type.ToString(),
                                              " cannot be a feature; make them numbers or remove the column"));
    }
    return absl::OkStatus();
  }

  absl::Status AppendText(const arrow::RecordBatch& batch, int column, const char* name,
                          std::vector<std::string>& text) const {
    const absl::Status status = AppendTextColumn(*batch.column(column), text);
    if (status.ok()) return status;
    return absl::DataLossError(absl::StrCat(source_.path(), ", column '", name, "' ", status.message()));
  }

  absl::Status BadCellsError(const std::vector<BadCell>& bad) const {
    std::vector<std::uint64_t> rows;
    for (const BadCell& cell : bad) rows.push_back(rows_ + cell.row);
    const std::vector<std::string> places = source_.PlacesOfRows(rows);
    ProblemList problems;
    for (std::size_t i = 0; i < bad.size(); ++i) {
      problems.Add(
          absl::StrCat(places[i], ", column '", columns_.feature_names[bad[i].column], "': ", bad[i].complaint));
    }
    return problems.ToStatus(source_.path(),
                             "every feature must be a finite number: correct the values, or leave out the rows or the "
                             "columns they are in");
  }

  absl::Status CheckIdsAreThere() const {
    std::vector<std::uint64_t> missing;
    for (std::size_t row = 0; row < ids_.size() && missing.size() < ProblemList::kMostShown; ++row) {
      if (ids_[row].empty()) missing.push_back(row);
    }
    ProblemList problems;
    for (const std::string& place : source_.PlacesOfRows(missing)) {
      problems.Add(absl::StrCat(place, ", column 'id': the value is missing or not UTF-8 text"));
    }
    return problems.ToStatus(source_.path(),
                             "give every row an id of its own, or remove the column to use row numbers");
  }

  absl::Status CheckIdsAreUnique(const RowIds& ids) const {
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

  // Each block goes as soon as it is copied, so that the pool is not in memory twice for long.
  Matrix<double> JoinBlocks() {
    if (blocks_.size() == 1) return std::move(blocks_.front());
    Matrix<double> joined(rows_, columns_.features.size());
    std::size_t first_row = 0;
    for (Matrix<double>& block : blocks_) {
      const MutableMatrixView target = joined.view().Rows(first_row, block.rows());
      ParallelForBlocks(block.rows(), kRowsPerCopy, [&](std::size_t first, std::size_t count) {
        CopyMatrix<double>(std::as_const(block).view().Rows(first, count), target.Rows(first, count));
      });
      first_row += block.rows();
      block = Matrix<double>();
    }
    return joined;
  }

  const TableSource& source_;
  PoolColumns columns_;
  std::vector<Matrix<double>> blocks_;
  std::vector<std::string> ids_;
  std::vector<std::string> labels_;
  std::size_t rows_ = 0;
};

}  // namespace

absl::StatusOr<Pool> LoadPool(const std::string& path, const PoolOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(const std::unique_ptr<TableSource> source, OpenTable(path));
  FULCRUM_ASSIGN_OR_RETURN(PoolColumns columns, FindColumns(*source));
  PoolBuilder builder(*source, std::move(columns), options.keep_labels);
  for (;;) {
    FULCRUM_ASSIGN_OR_RETURN(const auto batch, source->Next());
    if (batch == nullptr) return builder.Finish();
    FULCRUM_RETURN_IF_ERROR(builder.Append(*batch));
    if (options.on_progress) options.on_progress(builder.rows());
  }
}

}  // namespace fulcrum::ingest
