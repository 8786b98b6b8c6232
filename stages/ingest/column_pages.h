// The pages of one column of a row group, unpacked, without keeping the memory of the largest of them.
//
// Parquet's own page reader unpacks every page into one buffer that only grows. A dictionary is often ten times as
// large as the pages after it and needed once; with a hundred columns open at a time that is a hundred megabytes of
// nothing. What the column's dictionary took is given back here when its first page of data is asked for.
#pragma once

#include <memory>

#include "parquet/column_reader.h"
#include "parquet/properties.h"

namespace parquet {
class ParquetFileReader;
}  // namespace parquet

namespace fulcrum::ingest {

/// A Parquet file that is open: its reader, and what its reader reads from.
struct OpenParquetFile {
  parquet::ParquetFileReader* reader = nullptr;  ///< borrowed
  std::shared_ptr<parquet::ArrowInputFile> input;
  parquet::ReaderProperties properties;
};

/// Throws as parquet does. Thread-safe; what it returns belongs to one thread.
std::unique_ptr<parquet::PageReader> OpenColumnPages(const OpenParquetFile& file, int row_group, int leaf);

}  // namespace fulcrum::ingest
