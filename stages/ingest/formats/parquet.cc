// Parquet files: flat columns and lists, row group after row group, in batches of bounded size.
//
// A Parquet file from outside may be damaged or hostile: everything that parquet throws ends here as a status that
// names the file and the row group, its claims are held against limits, and every batch is checked in full before
// anyone looks at it. Columns are decoded in parallel under oneTBB: Arrow's own threads stay off.
#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "arrow/array.h"
#include "arrow/io/interfaces.h"
#include "arrow/memory_pool.h"
#include "arrow/record_batch.h"
#include "arrow/table.h"
#include "arrow/type.h"
#include "arrow/util/compression.h"
#include "parquet/arrow/reader.h"
#include "parquet/arrow/schema.h"
#include "parquet/arrow/writer.h"
#include "parquet/file_reader.h"
#include "parquet/metadata.h"
#include "parquet/properties.h"
#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/formats/flat_columns.h"
#include "stages/ingest/formats/input_stream.h"
#include "stages/ingest/formats/table_source.h"
#include "stages/ingest/formats/table_writer.h"

namespace fulcrum::ingest {
namespace {

// How a Parquet file is divided: its row groups, and how many of its rows make a batch of bounded size.
//
// A plain value; thread-safe.

class ParquetLayout {
 public:
  ParquetLayout() = default;
  /// DataLoss for a row group above the limits and for numbers that are impossible.
  static absl::StatusOr<ParquetLayout> Read(const parquet::FileMetaData& metadata, const InputLimits& limits,
                                            const std::string& path);

  std::int64_t rows() const { return row_group_ends_.empty() ? 0 : row_group_ends_.back(); }
  /// So that a batch has a few megabytes, whatever the width of a row.
  std::int64_t RowsPerBatch() const { return rows_per_batch_; }
  /// "row group 3 of 7", the one that a row is in.
  std::string DescribeRowGroupOf(std::int64_t row) const;

 private:
  std::vector<std::int64_t> row_group_ends_;  // rows up to the end of each
  std::int64_t rows_per_batch_ = 1;
};

constexpr std::int64_t kMostRowsPerBatch = 65536;
constexpr std::int64_t kFewestRowsPerBatch = 16;

void CollectLeaves(const parquet::arrow::SchemaField& field, std::vector<int>& leaves) {
  if (field.is_leaf()) leaves.push_back(field.column_index);
  for (const parquet::arrow::SchemaField& child : field.children) CollectLeaves(child, leaves);
}

absl::StatusOr<ParquetLayout> ParquetLayout::Read(const parquet::FileMetaData& metadata, const InputLimits& limits,
                                                  const std::string& path) {
  ParquetLayout layout;
  std::int64_t rows = 0, widest_row = 1;
  for (int group = 0; group < metadata.num_row_groups(); ++group) {
    const auto description = metadata.RowGroup(group);
    const std::int64_t bytes = description->total_byte_size(), count = description->num_rows();
    FULCRUM_RETURN_IF_ERROR(CheckRowGroupBytes(bytes, group, limits, path));
    if (count < 0 || count > std::numeric_limits<std::int64_t>::max() - rows) {
      return absl::DataLossError(absl::StrCat(path, ", row group ", group, ", claims to have ", count, " rows"));
    }
    rows += count;
    layout.row_group_ends_.push_back(rows);
    if (count > 0) widest_row = std::max(widest_row, bytes / count);
  }
  layout.rows_per_batch_ = std::clamp(limits.batch_bytes / widest_row, kFewestRowsPerBatch, kMostRowsPerBatch);
  return layout;
}

std::string ParquetLayout::DescribeRowGroupOf(std::int64_t row) const {
  const auto found = std::upper_bound(row_group_ends_.begin(), row_group_ends_.end(), row);
  // After the last row it is the last group that was read.
  const auto group = std::min<std::ptrdiff_t>(found - row_group_ends_.begin(),
                                              static_cast<std::ptrdiff_t>(row_group_ends_.size()) - 1);
  return absl::StrCat("row group ", std::max<std::ptrdiff_t>(group, 0), " of ", row_group_ends_.size());
}

std::vector<int> LeavesOf(const parquet::arrow::SchemaManifest& manifest, const std::vector<int>& fields) {
  std::vector<int> leaves;
  for (int field : fields) CollectLeaves(manifest.schema_fields[static_cast<std::size_t>(field)], leaves);
  return leaves;
}

// Puts columns that were read apart side by side again.
//
// Each reader has some of the columns of the same rows, cut into batches as it likes; the merger asks them in parallel
// and gives batches with all columns. Not thread-safe.

class BatchMerger {
 public:
  /// The readers' columns, one after the other, are those of the schema.
  BatchMerger(std::vector<std::unique_ptr<arrow::RecordBatchReader>> readers, std::shared_ptr<arrow::Schema> schema);

  /// The next rows, checked in full, or null after the last. `doing` opens the messages. What a reader throws is
  /// caught.
  absl::StatusOr<std::shared_ptr<arrow::RecordBatch>> Next(const std::string& doing);

 private:
  absl::Status Fill(std::size_t reader, const std::string& doing);

  std::vector<std::unique_ptr<arrow::RecordBatchReader>> readers_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<std::shared_ptr<arrow::RecordBatch>> pending_;  // by reader, what has not been given out yet
};

BatchMerger::BatchMerger(std::vector<std::unique_ptr<arrow::RecordBatchReader>> readers,
                         std::shared_ptr<arrow::Schema> schema)
    : readers_(std::move(readers)), schema_(std::move(schema)), pending_(readers_.size()) {}

absl::StatusOr<std::shared_ptr<arrow::RecordBatch>> BatchMerger::Next(const std::string& doing) {
  std::vector<absl::Status> outcomes(readers_.size());
  ParallelForBlocks(readers_.size(), 1,
                    [&](std::size_t reader, std::size_t) { outcomes[reader] = Fill(reader, doing); });
  for (const absl::Status& outcome : outcomes) FULCRUM_RETURN_IF_ERROR(outcome);
  const auto ended = [](const auto& batch) { return batch == nullptr; };
  if (std::all_of(pending_.begin(), pending_.end(), ended)) return std::shared_ptr<arrow::RecordBatch>();
  if (std::any_of(pending_.begin(), pending_.end(), ended)) {
    return absl::DataLossError(absl::StrCat(doing, ": its columns have different numbers of rows"));
  }
  std::int64_t rows = pending_[0]->num_rows();
  for (const auto& batch : pending_) rows = std::min(rows, batch->num_rows());
  arrow::ArrayVector columns;
  for (std::shared_ptr<arrow::RecordBatch>& batch : pending_) {
    const bool whole = batch->num_rows() == rows;
    for (const auto& column : batch->columns()) columns.push_back(whole ? column : column->Slice(0, rows));
    batch = whole ? nullptr : batch->Slice(rows);
  }
  return arrow::RecordBatch::Make(schema_, rows, std::move(columns));
}

absl::Status BatchMerger::Fill(std::size_t reader, const std::string& doing) {
  return WithoutExceptions(doing, [&]() -> absl::Status {
    while (pending_[reader] == nullptr) {
      std::shared_ptr<arrow::RecordBatch> batch;
      FULCRUM_RETURN_IF_ERROR(FromArrow(readers_[reader]->ReadNext(&batch), doing));
      if (batch == nullptr) return absl::OkStatus();
      if (batch->num_rows() == 0) continue;
      FULCRUM_RETURN_IF_ERROR(FromArrow(batch->ValidateFull(), doing));
      pending_[reader] = std::move(batch);
    }
    return absl::OkStatus();
  });
}

// More groups than threads, so that a slow column does not hold up the others; few enough to cost little each.
constexpr std::size_t kMostColumnGroups = 16;
// The buffer through which a column's page headers are read, and pages smaller than it; what does not fit goes straight
// to where it is unpacked from. A whole column chunk is never in memory.
constexpr std::int64_t kReadBufferBytes = 16 << 10;

class ParquetSource final : public TypedSource {
 public:
  ParquetSource(std::string path, const InputLimits& limits) : TypedSource(std::move(path), limits, "Parquet") {}

  absl::StatusOr<std::shared_ptr<arrow::RecordBatch>> Next() override {
    std::shared_ptr<arrow::RecordBatch> batch;
    if (merger_ == nullptr) return batch;
    const std::string doing = absl::StrCat(this->doing(), ", ", layout_.DescribeRowGroupOf(rows_read_));
    FULCRUM_RETURN_IF_ERROR(WithoutExceptions(doing, [&] { return ReadOrThrow(doing, batch); }));
    return batch;
  }

  std::optional<std::int64_t> ClaimedRows() const override { return layout_.rows(); }

  std::vector<std::string> PlacesOfRows(std::span<const std::uint64_t> rows) const override {
    std::vector<std::string> places;
    for (std::uint64_t row : rows) {
      places.push_back(
          absl::StrCat("row ", row, " (", layout_.DescribeRowGroupOf(static_cast<std::int64_t>(row)), ")"));
    }
    return places;
  }

 private:
  absl::Status ReadOrThrow(const std::string& doing, std::shared_ptr<arrow::RecordBatch>& batch) {
    FULCRUM_ASSIGN_OR_RETURN(batch, merger_->Next(doing));
    if (batch != nullptr) {
      rows_read_ += batch->num_rows();
      return absl::OkStatus();
    }
    if (rows_read_ == layout_.rows()) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat(this->doing(), ": it has ", rows_read_, " rows but claims ", layout_.rows()));
  }

  absl::Status OpenOrThrow(const TableRequest& request) override {
    FULCRUM_ASSIGN_OR_RETURN(file_.input, OpenRandomAccess(path(), limits().max_memory_bytes));
    arrow::MemoryPool* const memory = CappedPool(limits().max_memory_bytes);
    file_.properties = parquet::ReaderProperties(memory);
    file_.properties.set_page_checksum_verification(true);
    file_.properties.enable_buffered_stream();
    file_.properties.set_buffer_size(kReadBufferBytes);
    parquet::arrow::FileReaderBuilder builder;
    FULCRUM_RETURN_IF_ERROR(FromArrow(builder.Open(file_.input, file_.properties), doing()));
    const parquet::FileMetaData& metadata = *builder.raw_reader()->metadata();
    FULCRUM_RETURN_IF_ERROR(CheckColumnCount(metadata.num_columns(), limits(), path()));
    FULCRUM_ASSIGN_OR_RETURN(layout_, ParquetLayout::Read(metadata, limits(), path()));
    parquet::ArrowReaderProperties converting(/*use_threads=*/false);
    converting.set_pre_buffer(false);
    converting.set_batch_size(layout_.RowsPerBatch());
    FULCRUM_ASSIGN_OR_RETURN(reader_, FromArrow(builder.memory_pool(memory)->properties(converting)->Build(), doing()));
    file_.reader = reader_->parquet_reader();
    std::shared_ptr<arrow::Schema> whole;
    FULCRUM_RETURN_IF_ERROR(FromArrow(reader_->GetSchema(&whole), doing()));
    FULCRUM_ASSIGN_OR_RETURN(const std::vector<int> chosen, ChooseColumns(*whole, request));
    return OpenReaders(chosen);
  }

  absl::Status OpenReaders(const std::vector<int>& chosen) {
    if (chosen.empty()) return absl::OkStatus();
    std::vector<int> row_groups(static_cast<std::size_t>(reader_->num_row_groups()));
    std::iota(row_groups.begin(), row_groups.end(), 0);
    std::vector<std::unique_ptr<arrow::RecordBatchReader>> readers;
    const std::size_t groups = std::min(chosen.size(), kMostColumnGroups);
    for (std::size_t group = 0; group < groups; ++group) {
      const std::size_t begin = chosen.size() * group / groups, end = chosen.size() * (group + 1) / groups;
      FULCRUM_ASSIGN_OR_RETURN(readers.emplace_back(),
                               OpenReader({&chosen[begin], end - begin}, static_cast<int>(begin), row_groups));
    }
    merger_ = std::make_unique<BatchMerger>(std::move(readers), schema());
    return absl::OkStatus();
  }

  /// Of some of the file's fields, which are those of the batches from `first` on.
  absl::StatusOr<std::unique_ptr<arrow::RecordBatchReader>> OpenReader(std::span<const int> fields, int first,
                                                                       const std::vector<int>& row_groups) {
    const parquet::arrow::SchemaManifest& manifest = reader_->manifest();
    const std::vector<int> leaves = LeavesOf(manifest, {fields.begin(), fields.end()});
    const auto is_flat = [&](int field) { return IsFlatColumn(manifest, field); };
    if (!std::all_of(fields.begin(), fields.end(), is_flat)) {
      return FromArrow(reader_->GetRecordBatchReader(row_groups, leaves), doing());
    }
    const auto begin = schema()->fields().begin() + first;
    return ReadFlatColumns(file_, {.schema = arrow::schema({begin, begin + static_cast<long>(fields.size())}),
                                   .leaves = leaves,
                                   .rows_per_batch = layout_.RowsPerBatch()});
  }

  ParquetLayout layout_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  OpenParquetFile file_;                 // below reader_
  std::unique_ptr<BatchMerger> merger_;  // reads through reader_ and file_
  std::int64_t rows_read_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TableSource>> OpenParquet(const std::string& path, const TableRequest& request) {
  auto source = std::make_unique<ParquetSource>(path, request.limits);
  FULCRUM_RETURN_IF_ERROR(source->Open(request));
  return source;
}

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
