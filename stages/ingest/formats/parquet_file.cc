#include "stages/ingest/formats/parquet_file.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "arrow/io/interfaces.h"
#include "arrow/memory_pool.h"
#include "arrow/table.h"
#include "arrow/util/compression.h"
#include "parquet/arrow/reader.h"
#include "parquet/arrow/writer.h"
#include "parquet/file_reader.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/formats/table_writer.h"

namespace fulcrum::ingest {
namespace {

struct CodecName {
  const char* name;
  arrow::Compression::type codec;
};

constexpr std::array kCodecs = {
    CodecName{"uncompressed", arrow::Compression::UNCOMPRESSED},
    CodecName{"snappy", arrow::Compression::SNAPPY},
    CodecName{"gzip", arrow::Compression::GZIP},
    CodecName{"zstd", arrow::Compression::ZSTD},
    CodecName{"lz4", arrow::Compression::LZ4},
    CodecName{"brotli", arrow::Compression::BROTLI},
};

absl::StatusOr<arrow::Compression::type> FindCodec(const std::string& name) {
  for (const CodecName& entry : kCodecs) {
    if (name == entry.name && arrow::util::Codec::IsAvailable(entry.codec)) return entry.codec;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no Parquet codec '", name, "'; choose one of ", absl::StrJoin(ParquetCodecs(), ", ")));
}

/// Runs something that may throw as parquet does, and answers with a status that says what was being done.
template <typename Call>
absl::Status CatchParquet(const std::string& doing, const Call& call) {
  return WithoutExceptions(doing, [&] { return FromArrow(call(), doing); });
}

absl::StatusOr<std::unique_ptr<parquet::arrow::FileReader>> OpenReader(const std::string& path,
                                                                       arrow::MemoryPool* memory) {
  std::unique_ptr<parquet::arrow::FileReader> reader;
  FULCRUM_RETURN_IF_ERROR(CatchParquet(absl::StrCat("opening ", path), [&]() -> arrow::Status {
    parquet::ReaderProperties properties(memory);
    properties.set_page_checksum_verification(true);
    parquet::arrow::FileReaderBuilder builder;
    ARROW_RETURN_NOT_OK(builder.OpenFile(path, /*memory_map=*/false, properties));
    // The cores belong to oneTBB.
    parquet::ArrowReaderProperties arrow_properties(/*use_threads=*/false);
    arrow_properties.set_pre_buffer(false);
    return builder.memory_pool(memory)->properties(arrow_properties)->Build(&reader);
  }));
  return reader;
}

absl::Status CheckLimits(const parquet::FileMetaData& metadata, const std::string& path, const InputLimits& limits) {
  FULCRUM_RETURN_IF_ERROR(CheckColumnCount(metadata.num_columns(), limits, path));
  for (int group = 0; group < metadata.num_row_groups(); ++group) {
    FULCRUM_RETURN_IF_ERROR(CheckRowGroupBytes(metadata.RowGroup(group)->total_byte_size(), group, limits, path));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<arrow::Table>> ReadRowGroup(parquet::arrow::FileReader& reader, int group,
                                                           const std::string& path) {
  std::shared_ptr<arrow::Table> table;
  const std::string doing = absl::StrCat("reading ", path, ", row group ", group, " of ", reader.num_row_groups());
  FULCRUM_RETURN_IF_ERROR(CatchParquet(doing, [&]() -> arrow::Status {
    ARROW_ASSIGN_OR_RAISE(table, reader.ReadRowGroup(group));
    ARROW_RETURN_NOT_OK(table->ValidateFull());
    const std::int64_t claimed = reader.parquet_reader()->metadata()->RowGroup(group)->num_rows();
    if (table->num_rows() == claimed) return arrow::Status::OK();
    return arrow::Status::Invalid("it has ", table->num_rows(), " rows but claims ", claimed);
  }));
  return table;
}

}  // namespace

std::vector<std::string> ParquetCodecs() {
  std::vector<std::string> names;
  for (const CodecName& entry : kCodecs) {
    if (arrow::util::Codec::IsAvailable(entry.codec)) names.emplace_back(entry.name);
  }
  return names;
}

absl::Status WriteParquetFile(const arrow::Table& table, const std::string& path, const ParquetWriteOptions& options) {
  if (options.rows_per_group <= 0) return absl::InvalidArgumentError("a row group needs at least one row");
  FULCRUM_ASSIGN_OR_RETURN(const arrow::Compression::type codec, FindCodec(options.codec));
  FULCRUM_ASSIGN_OR_RETURN(const auto file, TableFile::Create(path));
  const std::shared_ptr<arrow::io::OutputStream> stream(std::shared_ptr<void>(), &file->stream());
  const auto properties = parquet::WriterProperties::Builder().compression(codec)->enable_page_checksum()->build();
  const auto arrow_properties = parquet::ArrowWriterProperties::Builder().store_schema()->build();
  FULCRUM_RETURN_IF_ERROR(CatchParquet(absl::StrCat("writing ", path), [&] {
    return parquet::arrow::WriteTable(table, arrow::default_memory_pool(), stream, options.rows_per_group, properties,
                                      arrow_properties);
  }));
  return file->Commit();
}

absl::StatusOr<std::shared_ptr<arrow::Table>> ReadParquetFile(const std::string& path, const InputLimits& limits) {
  FULCRUM_ASSIGN_OR_RETURN(const auto reader, OpenReader(path, CappedPool(limits.max_memory_bytes)));
  FULCRUM_RETURN_IF_ERROR(CheckLimits(*reader->parquet_reader()->metadata(), path, limits));
  std::shared_ptr<arrow::Schema> schema;
  FULCRUM_RETURN_IF_ERROR(
      CatchParquet(absl::StrCat("reading the schema of ", path), [&] { return reader->GetSchema(&schema); }));
  std::vector<std::shared_ptr<arrow::Table>> groups;
  for (int group = 0; group < reader->num_row_groups(); ++group) {
    FULCRUM_ASSIGN_OR_RETURN(groups.emplace_back(), ReadRowGroup(*reader, group, path));
  }
  if (groups.empty()) return FromArrow(arrow::Table::MakeEmpty(schema), absl::StrCat("reading ", path));
  return FromArrow(arrow::ConcatenateTables(groups), absl::StrCat("joining the row groups of ", path));
}

}  // namespace fulcrum::ingest
