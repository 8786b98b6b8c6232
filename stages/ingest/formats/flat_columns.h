// Flat columns of floating-point numbers of a Parquet file, decoded straight into the arrays of a batch.
//
// Most features are such columns. Arrow's own reader, made for every type there is, lets a builder grow for each of
// them and copies what it has into an array of the right size; here the pages are decoded into that array at once.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "arrow/type_fwd.h"
#include "parquet/column_reader.h"
#include "parquet/properties.h"

namespace parquet {
class ParquetFileReader;
}  // namespace parquet

namespace fulcrum::ingest {

// The pages of one column of a row group, unpacked, without keeping the memory of the largest of them.
//
// Parquet's own page reader unpacks every page into one buffer that only grows. A dictionary is often ten times as
// large as the pages after it and needed once; with a hundred columns open at a time that is a hundred megabytes of
// nothing. What the column's dictionary took is given back here when its first page of data is asked for.

/// A Parquet file that is open: its reader, and what its reader reads from.
struct OpenParquetFile {
  parquet::ParquetFileReader* reader = nullptr;  ///< borrowed
  std::shared_ptr<parquet::ArrowInputFile> input;
  parquet::ReaderProperties properties;
};

/// Throws as parquet does. Thread-safe; what it returns belongs to one thread.
std::unique_ptr<parquet::PageReader> OpenColumnPages(const OpenParquetFile& file, int row_group, int leaf);

}  // namespace fulcrum::ingest

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
