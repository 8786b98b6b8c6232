// Flat columns of floating-point numbers of a Parquet file, decoded straight into the arrays of a batch.
//
// Most features are such columns. Arrow's own reader, made for every type there is, lets a builder grow for each of
// them and copies what it has into an array of the right size; here the pages are decoded into that array at once.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "arrow/type_fwd.h"
#include "stages/ingest/column_pages.h"

namespace parquet::arrow {
struct SchemaManifest;
}  // namespace parquet::arrow

namespace fulcrum::ingest {

/// Whether ReadFlatColumns can read this top-level field: float32 or float64, with nulls or without.
bool IsFlatColumn(const parquet::arrow::SchemaManifest& manifest, int field);

struct FlatColumnsRequest {
  std::shared_ptr<arrow::Schema> schema;  ///< of the batches
  std::vector<int> leaves;                ///< the columns in the file, by field of the schema
  std::int64_t rows_per_batch = 1;        ///< > 0; the last batch may have fewer
};

/// All rows of these columns, in order. The file outlives the reader; many threads may read from it at the same time,
/// each with a reader of its own. ReadNext throws as parquet does, also where a column does not have the rows that its
/// row group claims.
std::unique_ptr<arrow::RecordBatchReader> ReadFlatColumns(const OpenParquetFile& file, FlatColumnsRequest request);

}  // namespace fulcrum::ingest
