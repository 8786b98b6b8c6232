// Collects a pool batch by batch. Not thread-safe; decodes in parallel inside.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "arrow/type_fwd.h"
#include "stages/core/matrix.h"
#include "stages/core/sparse_matrix.h"
#include "stages/ingest/column_roles.h"
#include "stages/ingest/feature_block.h"
#include "stages/ingest/pool.h"
#include "stages/ingest/table_source.h"

namespace fulcrum::ingest {

class PoolBuilder {
 public:
  /// Keeps a reference to the source, for the places of what is wrong.
  PoolBuilder(const TableSource& source, ColumnRoles roles, const PoolOptions& options);

  absl::Status Append(const arrow::RecordBatch& batch);
  std::size_t rows() const { return rows_; }
  /// The pool, once all of its rows are there.
  absl::StatusOr<Pool> Finish();

 private:
  absl::Status CheckMemory(const arrow::RecordBatch& batch) const;
  absl::Status AppendFeatures(const arrow::RecordBatch& batch);
  absl::Status AppendCosts(const arrow::RecordBatch& batch);
  absl::Status AppendText(const arrow::RecordBatch& batch, int column, std::vector<std::string>& text) const;
  absl::Status BadCellsError(const std::vector<BadCell>& bad) const;
  absl::Status CheckIdsAreThere() const;
  absl::Status CheckIdsAreUnique(const RowIds& ids) const;
  PoolFeatures JoinBlocks();

  const TableSource& source_;
  ColumnRoles roles_;
  std::int64_t max_memory_bytes_;
  std::vector<Matrix<double>> blocks_;
  SparseMatrix sparse_;
  std::vector<std::string> ids_;
  std::vector<std::string> labels_;
  std::vector<std::string> payloads_;
  std::vector<double> costs_;
  std::size_t rows_ = 0;
};

}  // namespace fulcrum::ingest
