// The pool: every example that may be labeled, in memory.
//
// Read from one or several tables with an id (optional: what the user calls the row), a label (optional) and features,
// which must be finite numbers. A plain value; movable, not copyable.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "arrow/type_fwd.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/ingest/columns/column_roles.h"
#include "stages/ingest/columns/column_values.h"
#include "stages/ingest/columns/row_ids.h"
#include "stages/ingest/formats/input_stream.h"
#include "stages/ingest/formats/table_source.h"

namespace fulcrum::ingest {

// The features of a pool in memory: a dense matrix or a sparse one, as the files had them.
//
// A plain value; movable, not copyable.

class PoolFeatures {
 public:
  PoolFeatures() = default;
  explicit PoolFeatures(Matrix<double> dense) : values_(std::move(dense)) {}
  explicit PoolFeatures(SparseMatrix sparse) : values_(std::move(sparse)) {}

  bool is_sparse() const { return std::holds_alternative<SparseMatrix>(values_); }
  std::size_t rows() const { return is_sparse() ? sparse().rows() : dense().rows(); }
  std::size_t cols() const { return is_sparse() ? sparse().cols : dense().cols(); }

  /// The one that it is.
  Matrix<double>& dense() { return std::get<Matrix<double>>(values_); }
  const Matrix<double>& dense() const { return std::get<Matrix<double>>(values_); }
  SparseMatrix& sparse() { return std::get<SparseMatrix>(values_); }
  const SparseMatrix& sparse() const { return std::get<SparseMatrix>(values_); }

  /// Writes out the zeros, where there are some to write out.
  void MakeDense() {
    if (is_sparse()) values_ = ToDense(sparse());
  }

 private:
  std::variant<Matrix<double>, SparseMatrix> values_;
};

struct Pool {
  RowIds ids;
  std::vector<std::string> feature_names;          ///< of dense features; sparse ones have numbers
  PoolFeatures features;                           ///< one example a row, not normalised
  std::optional<std::vector<std::string>> labels;  ///< by row, as text, where the table has the column
  /// By row, what a person needs to see and what a label costs; empty if the columns were not named or not kept.
  std::vector<std::string> payloads;
  std::vector<double> costs;

  /// What people call a feature: the name of its column, or its number, from 1.
  std::string FeatureName(std::size_t feature) const;
};

struct PoolOptions {
  bool keep_labels = false;
  bool keep_payloads = false;  ///< and costs
  /// Told how many rows have been read so far, from the calling thread.
  std::function<void(std::size_t rows)> on_progress = {};
  ColumnOptions columns = {};
  /// `max_memory_bytes` bounds the pool and what its reader holds, together.
  InputLimits limits = {};
  /// What the caller is going to need for each row besides the pool; counts against the same limit.
  std::size_t extra_bytes_per_row = 0;
};

/// Reads a pool. Errors are DataLoss (NotFound for a missing file) and name file, line, column, value and
/// what to do; up to five problems in one message.
absl::StatusOr<Pool> LoadPool(const std::string& path, const PoolOptions& options = {});

/// The same from several sources, read as one table: files, folders, globs (formats/table_source.h).
absl::StatusOr<Pool> LoadPool(const std::vector<std::string>& sources, const PoolOptions& options = {});

// Collects a pool batch by batch. Not thread-safe; decodes in parallel inside.

class PoolBuilder {
 public:
  /// Keeps a reference to the source, for the places of what is wrong.
  PoolBuilder(const TableSource& source, ColumnRoles roles, const PoolOptions& options);

  /// ResourceExhausted if so many rows do not fit the memory limit.
  absl::Status CheckMemory(std::size_t rows) const;
  absl::Status Append(const arrow::RecordBatch& batch);
  std::size_t rows() const { return rows_; }
  /// The pool, once all of its rows are there.
  absl::StatusOr<Pool> Finish();

 private:
  struct Block {
    Matrix<double> values;
    std::size_t rows = 0;  // that are filled
  };

  absl::Status AppendFeatures(const arrow::RecordBatch& batch);
  MutableMatrixView NextRows(std::size_t count);
  absl::Status AppendCosts(const arrow::RecordBatch& batch);
  absl::Status AppendText(const arrow::RecordBatch& batch, int column, std::vector<std::string>& text);
  absl::Status BadCellsError(const std::vector<BadCell>& bad) const;
  absl::Status CheckIdsAreThere() const;
  absl::Status CheckIdsAreUnique(const RowIds& ids) const;
  PoolFeatures JoinBlocks();

  const TableSource& source_;
  ColumnRoles roles_;
  std::size_t max_memory_bytes_;
  std::size_t extra_bytes_per_row_;
  std::size_t text_bytes_ = 0;  // of ids, labels and payloads
  std::vector<Block> blocks_;
  SparseMatrix sparse_;
  std::vector<std::string> ids_;
  std::vector<std::string> labels_;
  std::vector<std::string> payloads_;
  std::vector<double> costs_;
  std::size_t rows_ = 0;
};

// Files that say which class rows belong to: labels that people gave, or predictions of the user's own model.
//
// A table with the columns `id` and `label`; others are ignored.

struct RowLabel {
  RowIndex row = 0;
  std::string label;
};

/// The labels in the file, ascending by row, one a row. A header without rows gives none. Errors: an id that
/// the pool does not have, an id with two different labels (the same one twice is fine), an empty label,
/// missing columns; each with file, line, value and what to do.
absl::StatusOr<std::vector<RowLabel>> LoadLabelFile(const std::string& path, const RowIds& ids,
                                                    const InputLimits& limits = {});

// The classes of a campaign: their names, sorted, and the index each has.
//
// Immutable and thread-safe after construction.

class ClassNames {
 public:
  /// From labels in any order and number: in numeric order if all are numbers, else by their bytes.
  /// DataLoss if two names are the same number written differently ("1" and "1.0").
  static absl::StatusOr<ClassNames> FromLabels(std::vector<std::string> labels);

  std::size_t size() const { return names_.size(); }
  const std::vector<std::string>& names() const { return names_; }
  const std::string& NameOf(ClassIndex index) const { return names_[static_cast<std::size_t>(index)]; }
  /// kUnlabeled if there is no such class.
  ClassIndex Find(absl::string_view name) const;

 private:
  explicit ClassNames(std::vector<std::string> names);

  std::vector<std::string> names_;
  absl::flat_hash_map<std::string, ClassIndex> index_of_name_;
};

// Labels by id from a table of its own, where there is no pool to compare the ids with: answers of an oracle, labels to
// be imported.
//
// A table with a column `label` and, unless its rows are named by their numbers from 0, a column `id`: a label file, or
// a pool whose labels are known. Other columns are not looked at.

struct KnownLabel {
  std::string id;
  std::string label;
};

/// In the order of the file, rows without a label left out, an id with the same label twice given once. DataLoss
/// (NotFound for a missing file) for an id without a name or with two labels, and where there is no column `label`.
absl::StatusOr<std::vector<KnownLabel>> LoadKnownLabels(const std::string& path, const InputLimits& limits = {});

}  // namespace fulcrum::ingest
