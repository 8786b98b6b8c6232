// Features of a record batch as a block of rows: dense, or sparse.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "arrow/type_fwd.h"
#include "stages/core/matrix.h"
#include "stages/ingest/columns/column_roles.h"

namespace fulcrum::ingest {

/// A value that cannot be a feature.
struct BadCell {
  std::size_t row = 0;    ///< in the batch
  std::size_t part = 0;   ///< index into the parts that were asked for
  std::string complaint;  ///< "'abc' is not a number"
};

/// Which bad cells are of interest.
struct BadCellRequest {
  std::size_t most = 5;
  bool one_a_row = false;
};

/// Fills the rows of `out`, part after part: numbers of any type, text that reads as one, or lists of numbers; `out`
/// has as many columns as the parts are wide. T is double, or float, for which a value must fit. Returns the first bad
/// cells in reading order; empty if every value is finite. Rows are decoded in parallel.
template <typename T>
std::vector<BadCell> DecodeFeatures(const arrow::RecordBatch& batch, const std::vector<FeaturePart>& parts,
                                    MatrixView<T> out, const BadCellRequest& request);

/// Appends the rows of a sparse pair, their elements sorted; a bad row appends a row without elements.
std::vector<BadCell> DecodeSparse(const arrow::RecordBatch& batch, const FeaturePart& pair, SparseMatrix& out,
                                  const BadCellRequest& request);

/// Numbers, and text that may read as one.
bool IsFeatureType(const arrow::DataType& type);
/// Integers, floating-point numbers, decimals, and truth values, which are 0 and 1.
bool IsNumberType(const arrow::DataType& type);
bool IsIntegerType(const arrow::DataType& type);

}  // namespace fulcrum::ingest
