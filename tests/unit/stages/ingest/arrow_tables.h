// Small Arrow tables and files of them, for the tests of readers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "arrow/type_fwd.h"
#include "arrow/util/compression.h"

namespace fulcrum::ingest {

std::shared_ptr<arrow::Array> Floats(const std::vector<float>& values);
std::shared_ptr<arrow::Array> Doubles(const std::vector<double>& values);
/// Half floats of these values, rounded.
std::shared_ptr<arrow::Array> Halves(const std::vector<float>& values);
std::shared_ptr<arrow::Array> Integers(const std::vector<std::int64_t>& values);
std::shared_ptr<arrow::Array> Texts(const std::vector<std::string>& values);
/// Lists of floats; an empty optional list is null.
std::shared_ptr<arrow::Array> FloatLists(const std::vector<std::vector<float>>& lists);
std::shared_ptr<arrow::Array> HalfLists(const std::vector<std::vector<float>>& lists);
std::shared_ptr<arrow::Array> IndexLists(const std::vector<std::vector<std::int32_t>>& lists);
/// All of one length.
std::shared_ptr<arrow::Array> FixedFloatLists(const std::vector<std::vector<float>>& lists);

struct NamedArray {
  std::string name;
  std::shared_ptr<arrow::Array> array;
};
std::shared_ptr<arrow::Table> TableOf(const std::vector<NamedArray>& columns);

void WriteParquetTo(const std::string& path, const arrow::Table& table, std::int64_t rows_per_group = 1 << 20,
                    arrow::Compression::type codec = arrow::Compression::UNCOMPRESSED);
void WriteIpcFileTo(const std::string& path, const arrow::Table& table);
/// The bytes of a stream.
std::string IpcStreamOf(const arrow::Table& table);

}  // namespace fulcrum::ingest
