// Columns of a record batch as a row-major block of features.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "arrow/type_fwd.h"
#include "stages/core/matrix.h"

namespace fulcrum::ingest {

/// A value that cannot be a feature.
struct BadCell {
  std::size_t row = 0;     ///< in the batch
  std::size_t column = 0;  ///< index into the columns that were asked for
  std::string complaint;   ///< "'abc' is not a number"
};

/// Fills out(row, i) from column columns[i] of the batch: numbers of any type, or text that reads as one.
/// Returns the first bad cells in reading order, at most `most`; empty where every value is finite.
/// Rows are decoded in parallel.
std::vector<BadCell> DecodeFeatures(const arrow::RecordBatch& batch, const std::vector<int>& columns,
                                    MutableMatrixView out, std::size_t most);

/// Column types that DecodeFeatures understands.
bool IsFeatureType(const arrow::DataType& type);

}  // namespace fulcrum::ingest
