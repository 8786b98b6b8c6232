#include "stages/ingest/formats/flat_columns.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "arrow/array.h"
#include "arrow/buffer.h"
#include "arrow/io/interfaces.h"
#include "arrow/record_batch.h"
#include "arrow/type.h"
#include "arrow/util/bit_util.h"
#include "parquet/arrow/schema.h"
#include "parquet/column_page.h"
#include "parquet/column_reader.h"
#include "parquet/exception.h"
#include "parquet/file_reader.h"
#include "parquet/metadata.h"

namespace fulcrum::ingest {
namespace {

class ColumnPages final : public parquet::PageReader {
 public:
  ColumnPages(const OpenParquetFile& file, int row_group, int leaf)
      : metadata_(file.reader->metadata()),
        chunk_(metadata_->RowGroup(row_group)->ColumnChunk(leaf)),
        column_(*metadata_->schema()->Column(leaf)),
        properties_(file.properties) {
    if (chunk_->crypto_metadata() != nullptr) throw parquet::ParquetException("the column is encrypted");
    PARQUET_ASSIGN_OR_THROW(const auto ranges, file.reader->GetReadRanges({row_group}, {leaf}));
    if (ranges.size() != 1) throw parquet::ParquetException("the column has no pages");
    stream_ = properties_.GetStream(file.input, ranges[0].offset, ranges[0].length);
    OpenPages();
  }

  std::shared_ptr<parquet::Page> NextPage() override {
    if (gave_dictionary_) OpenPages();
    std::shared_ptr<parquet::Page> page = pages_->NextPage();
    gave_dictionary_ = page != nullptr && page->type() == parquet::PageType::DICTIONARY_PAGE;
    return page;
  }

  void set_max_page_header_size(uint32_t size) override { pages_->set_max_page_header_size(size); }

 private:
  /// From where the stream is now: a page reader reads nothing ahead.
  void OpenPages() {
    // Files by old writers say of compressed pages that they are not.
    const bool always_compressed =
        metadata_->writer_version().VersionLt(parquet::ApplicationVersion::PARQUET_CPP_10353_FIXED_VERSION());
    pages_ = parquet::PageReader::Open(stream_, chunk_->num_values(), chunk_->compression(), properties_, column_,
                                       always_compressed);
  }

  const std::shared_ptr<parquet::FileMetaData> metadata_;
  const std::unique_ptr<parquet::ColumnChunkMetaData> chunk_;
  const parquet::ColumnDescriptor& column_;
  parquet::ReaderProperties properties_;
  std::shared_ptr<parquet::ArrowInputStream> stream_;
  std::unique_ptr<parquet::PageReader> pages_;
  bool gave_dictionary_ = false;
};

}  // namespace

std::unique_ptr<parquet::PageReader> OpenColumnPages(const OpenParquetFile& file, int row_group, int leaf) {
  return std::make_unique<ColumnPages>(file, row_group, leaf);
}

namespace {

/// One column, over all row groups.
class FlatColumn {
 public:
  virtual ~FlatColumn() = default;
  /// The next `rows` rows; throws if there are not as many.
  virtual arrow::Result<std::shared_ptr<arrow::Array>> Read(std::int64_t rows) = 0;
};

template <typename ParquetType, typename ArrowType>
class TypedFlatColumn final : public FlatColumn {
 public:
  TypedFlatColumn(const OpenParquetFile& file, int leaf)
      : file_(file),
        leaf_(leaf),
        memory_(file.properties.memory_pool()),
        largest_level_(Description().max_definition_level()) {}

  arrow::Result<std::shared_ptr<arrow::Array>> Read(std::int64_t rows) override {
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> values, arrow::AllocateBuffer(rows * kValueBytes, memory_));
    valid_ = nullptr;
    nulls_ = 0;
    for (std::int64_t done = 0; done < rows;) {
      while (left_in_group_ == 0) BeginGroup();
      ARROW_ASSIGN_OR_RAISE(const std::int64_t count,
                            ReadSome(reinterpret_cast<Value*>(values->mutable_data()), done, rows));
      done += count;
      left_in_group_ -= count;
      CheckEndOfGroup();
    }
    return std::make_shared<arrow::NumericArray<ArrowType>>(rows, std::move(values), std::move(valid_), nulls_);
  }

 private:
  using Value = typename ParquetType::c_type;
  static constexpr std::int64_t kValueBytes = sizeof(Value);

  const parquet::ColumnDescriptor& Description() const { return *Metadata().schema()->Column(leaf_); }
  const parquet::FileMetaData& Metadata() const { return *file_.reader->metadata(); }

  [[noreturn]] void Complain(const char* more_or_fewer) const {
    throw parquet::ParquetException(
        absl::StrCat("the column '", Description().name(), "' has ", more_or_fewer, " rows than its row group claims"));
  }

  void BeginGroup() {
    if (next_group_ == Metadata().num_row_groups()) Complain("fewer");
    left_in_group_ = Metadata().RowGroup(next_group_)->num_rows();
    reader_ = std::static_pointer_cast<parquet::TypedColumnReader<ParquetType>>(
        parquet::ColumnReader::Make(&Description(), OpenColumnPages(file_, next_group_, leaf_), memory_));
    ++next_group_;
    CheckEndOfGroup();
  }

  void CheckEndOfGroup() const {
    if (left_in_group_ == 0 && reader_->HasNext()) Complain("more");
  }

  /// Values [done, ...), as many as there are of them in a page, fewer than to the end of the array; how many.
  arrow::Result<std::int64_t> ReadSome(Value* values, std::int64_t done, std::int64_t rows) {
    const std::int64_t wanted = std::min(rows - done, left_in_group_);
    if (largest_level_ > 0) levels_.resize(static_cast<std::size_t>(wanted));
    std::int64_t there = 0;
    const std::int64_t count =
        reader_->HasNext() ? reader_->ReadBatch(wanted, levels_.data(), nullptr, values + done, &there) : 0;
    if (count == 0) Complain("fewer");
    if (largest_level_ > 0) ARROW_RETURN_NOT_OK(LeaveRoomForNulls(values, done, count, there, rows));
    return count;
  }

  /// The values that are there stand side by side; moves each to its row, from the last on.
  arrow::Status LeaveRoomForNulls(Value* values, std::int64_t done, std::int64_t count, std::int64_t there,
                                  std::int64_t rows) {
    const auto end = levels_.begin() + count;
    if (std::count(levels_.begin(), end, largest_level_) != there) Complain("other");
    if (there == count) return arrow::Status::OK();
    if (valid_ == nullptr) {
      ARROW_ASSIGN_OR_RAISE(valid_, arrow::AllocateBitmap(rows, memory_));
      arrow::bit_util::SetBitsTo(valid_->mutable_data(), 0, rows, true);
    }
    nulls_ += count - there;
    for (std::int64_t i = count - 1; i >= 0; --i) {
      const bool is_there = levels_[static_cast<std::size_t>(i)] == largest_level_;
      values[done + i] = is_there ? values[done + --there] : Value{0};
      if (!is_there) arrow::bit_util::ClearBit(valid_->mutable_data(), done + i);
    }
    return arrow::Status::OK();
  }

  const OpenParquetFile& file_;
  const int leaf_;
  arrow::MemoryPool* const memory_;
  const std::int16_t largest_level_;  // 0 if no value can be missing
  int next_group_ = 0;
  std::int64_t left_in_group_ = 0;
  std::shared_ptr<parquet::TypedColumnReader<ParquetType>> reader_;
  std::vector<std::int16_t> levels_;
  std::shared_ptr<arrow::Buffer> valid_;  // of the array being read; null while nothing is missing
  std::int64_t nulls_ = 0;
};

class FlatColumnsReader final : public arrow::RecordBatchReader {
 public:
  FlatColumnsReader(const OpenParquetFile& file, FlatColumnsRequest request) : request_(std::move(request)) {
    const parquet::FileMetaData& metadata = *file.reader->metadata();
    for (int group = 0; group < metadata.num_row_groups(); ++group) rows_left_ += metadata.RowGroup(group)->num_rows();
    for (std::size_t i = 0; i < request_.leaves.size(); ++i) {
      const bool single = request_.schema->field(static_cast<int>(i))->type()->id() == arrow::Type::FLOAT;
      columns_.push_back(single ? Open<parquet::FloatType, arrow::FloatType>(file, request_.leaves[i])
                                : Open<parquet::DoubleType, arrow::DoubleType>(file, request_.leaves[i]));
    }
  }

  std::shared_ptr<arrow::Schema> schema() const override { return request_.schema; }

  arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch>* batch) override {
    *batch = nullptr;
    const std::int64_t rows = std::min(request_.rows_per_batch, rows_left_);
    if (rows == 0) return arrow::Status::OK();
    arrow::ArrayVector arrays;
    for (const auto& column : columns_) {
      ARROW_ASSIGN_OR_RAISE(arrays.emplace_back(), column->Read(rows));
    }
    rows_left_ -= rows;
    *batch = arrow::RecordBatch::Make(request_.schema, rows, std::move(arrays));
    return arrow::Status::OK();
  }

 private:
  template <typename ParquetType, typename ArrowType>
  static std::unique_ptr<FlatColumn> Open(const OpenParquetFile& file, int leaf) {
    return std::make_unique<TypedFlatColumn<ParquetType, ArrowType>>(file, leaf);
  }

  FlatColumnsRequest request_;
  std::vector<std::unique_ptr<FlatColumn>> columns_;
  std::int64_t rows_left_ = 0;
};

}  // namespace

bool IsFlatColumn(const parquet::arrow::SchemaManifest& manifest, int field) {
  const parquet::arrow::SchemaField& here = manifest.schema_fields[static_cast<std::size_t>(field)];
  if (!here.is_leaf()) return false;
  const parquet::ColumnDescriptor& stored = *manifest.descr->Column(here.column_index);
  if (stored.max_repetition_level() != 0 || stored.max_definition_level() > 1) return false;
  const arrow::Type::type type = here.field->type()->id();
  return (type == arrow::Type::FLOAT && stored.physical_type() == parquet::Type::FLOAT) ||
         (type == arrow::Type::DOUBLE && stored.physical_type() == parquet::Type::DOUBLE);
}

std::unique_ptr<arrow::RecordBatchReader> ReadFlatColumns(const OpenParquetFile& file, FlatColumnsRequest request) {
  return std::make_unique<FlatColumnsReader>(file, std::move(request));
}

}  // namespace fulcrum::ingest
