#include "stages/ingest/formats/table_writer.h"

#include <cerrno>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "arrow/array.h"
#include "arrow/io/compressed.h"
#include "arrow/io/interfaces.h"
#include "arrow/io/memory.h"
#include "arrow/ipc/writer.h"
#include "arrow/record_batch.h"
#include "arrow/table.h"
#include "arrow/type.h"
#include "arrow/util/compression.h"
#include "arrow/util/io_util.h"
#include "parquet/arrow/writer.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/columns/column_roles.h"
#include "stages/ingest/columns/column_values.h"
#include "stages/ingest/formats/input_stream.h"
#include "stages/ingest/formats/table_source.h"

namespace fulcrum::ingest {
namespace {

constexpr char kWriting[] = "cannot write the table";

/// Arrow wants shared ownership of the stream; its owner outlives the writer.
std::shared_ptr<arrow::io::OutputStream> Borrowed(arrow::io::OutputStream& stream) {
  return std::shared_ptr<arrow::io::OutputStream>(std::shared_ptr<void>(), &stream);
}

class IpcTableWriter final : public TableWriter {
 public:
  explicit IpcTableWriter(std::shared_ptr<arrow::ipc::RecordBatchWriter> writer) : writer_(std::move(writer)) {}
  absl::Status Write(const arrow::RecordBatch& batch) override {
    return FromArrow(writer_->WriteRecordBatch(batch), kWriting);
  }
  absl::Status Finish() override { return FromArrow(writer_->Close(), kWriting); }

 private:
  std::shared_ptr<arrow::ipc::RecordBatchWriter> writer_;
};

class ParquetTableWriter final : public TableWriter {
 public:
  explicit ParquetTableWriter(std::unique_ptr<parquet::arrow::FileWriter> writer) : writer_(std::move(writer)) {}
  absl::Status Write(const arrow::RecordBatch& batch) override {
    return WithoutExceptions(kWriting, [&] { return FromArrow(writer_->WriteRecordBatch(batch), kWriting); });
  }
  absl::Status Finish() override {
    return WithoutExceptions(kWriting, [&] { return FromArrow(writer_->Close(), kWriting); });
  }

 private:
  std::unique_ptr<parquet::arrow::FileWriter> writer_;
};

absl::StatusOr<std::unique_ptr<TableWriter>> MakeParquetWriter(const std::shared_ptr<arrow::Schema>& schema,
                                                               arrow::io::OutputStream& stream,
                                                               arrow::MemoryPool* memory) {
  const auto properties = parquet::WriterProperties::Builder()
                              .memory_pool(memory)
                              ->compression(arrow::Compression::ZSTD)
                              ->enable_page_checksum()
                              ->build();
  const auto arrow_properties = parquet::ArrowWriterProperties::Builder().store_schema()->build();
  FULCRUM_ASSIGN_OR_RETURN(auto writer, FromArrow(parquet::arrow::FileWriter::Open(*schema, memory, Borrowed(stream),
                                                                                   properties, arrow_properties),
                                                  kWriting));
  return std::make_unique<ParquetTableWriter>(std::move(writer));
}

absl::StatusOr<std::unique_ptr<TableWriter>> MakeIpcWriter(bool file, const std::shared_ptr<arrow::Schema>& schema,
                                                           arrow::io::OutputStream& stream, arrow::MemoryPool* memory) {
  arrow::ipc::IpcWriteOptions options;
  options.memory_pool = memory;
  options.use_threads = false;
  auto made = file ? arrow::ipc::MakeFileWriter(Borrowed(stream), schema, options)
                   : arrow::ipc::MakeStreamWriter(Borrowed(stream), schema, options);
  FULCRUM_ASSIGN_OR_RETURN(auto writer, FromArrow(std::move(made), kWriting));
  return std::make_unique<IpcTableWriter>(std::move(writer));
}

}  // namespace

absl::StatusOr<TableFormat> FormatOf(const std::string& path) {
  const absl::string_view name = WithoutCompressionEnding(path);
  const bool compressed = name.size() != path.size();
  struct Ending {
    const char* ending;
    TableFormat format;
    bool may_be_compressed;
  };
  constexpr Ending kEndings[] = {{".csv", TableFormat::kCsv, true},          {".parquet", TableFormat::kParquet, false},
                                 {".arrow", TableFormat::kIpcFile, false},   {".ipc", TableFormat::kIpcFile, false},
                                 {".feather", TableFormat::kIpcFile, false}, {".arrows", TableFormat::kIpcStream, true},
                                 {".svm", TableFormat::kLibsvm, true},       {".libsvm", TableFormat::kLibsvm, true}};
  for (const Ending& entry : kEndings) {
    if (!absl::EndsWithIgnoreCase(name, entry.ending)) continue;
    if (!compressed || entry.may_be_compressed) return entry.format;
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "': a ", entry.ending, " file cannot be compressed as a whole; leave the ending out"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("cannot tell the format of '", path,
                   "' by its ending; known are .csv, .parquet, .arrow, .ipc, .feather, .arrows, .svm and .libsvm "
                   "(.csv, .arrows, .svm and .libsvm also with .gz or .zst)"));
}

absl::StatusOr<std::unique_ptr<TableWriter>> MakeTableWriter(TableFormat format, std::shared_ptr<arrow::Schema> schema,
                                                             arrow::io::OutputStream& stream,
                                                             std::int64_t max_memory_bytes) {
  arrow::MemoryPool* const memory = CappedPool(max_memory_bytes);
  switch (format) {
    case TableFormat::kCsv:
      return MakeCsvWriter(*schema, stream);
    case TableFormat::kLibsvm:
      return MakeLibsvmWriter(*schema, stream);
    case TableFormat::kParquet:
      return MakeParquetWriter(schema, stream, memory);
    default:
      return MakeIpcWriter(format == TableFormat::kIpcFile, schema, stream, memory);
  }
}

absl::StatusOr<std::string> SerializeTable(TableFormat format, const arrow::Table& table) {
  FULCRUM_ASSIGN_OR_RETURN(const auto sink, FromArrow(arrow::io::BufferOutputStream::Create(), kWriting));
  FULCRUM_ASSIGN_OR_RETURN(const auto writer, MakeTableWriter(format, table.schema(), *sink));
  FULCRUM_ASSIGN_OR_RETURN(const auto batch, FromArrow(table.CombineChunksToBatch(), kWriting));
  FULCRUM_RETURN_IF_ERROR(writer->Write(*batch));
  FULCRUM_RETURN_IF_ERROR(writer->Finish());
  FULCRUM_ASSIGN_OR_RETURN(const auto buffer, FromArrow(sink->Finish(), kWriting));
  return buffer->ToString();
}

namespace {

/// What Arrow writes, into a file that is put in its place when it is complete.
class AtomicStream final : public arrow::io::OutputStream {
 public:
  explicit AtomicStream(AtomicFile& file) : file_(file) {}
  arrow::Status Write(const void* data, std::int64_t bytes) override {
    const absl::Status status = file_.Write({static_cast<const char*>(data), static_cast<std::size_t>(bytes)});
    if (status.ok()) {
      position_ += bytes;
      return arrow::Status::OK();
    }
    const std::string message(status.message());
    return absl::IsResourceExhausted(status) ? arrow::internal::IOErrorFromErrno(ENOSPC, message)
                                             : arrow::Status::IOError(message);
  }
  arrow::Status Close() override {
    closed_ = true;
    return arrow::Status::OK();
  }
  arrow::Result<std::int64_t> Tell() const override { return position_; }
  bool closed() const override { return closed_; }

 private:
  AtomicFile& file_;
  std::int64_t position_ = 0;
  bool closed_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TableFile>> TableFile::Create(const std::string& path) {
  FULCRUM_ASSIGN_OR_RETURN(AtomicFile created, AtomicFile::Create(path));
  std::unique_ptr<TableFile> file(new TableFile(std::move(created)));
  file->stream_ = std::make_shared<AtomicStream>(file->file_);
  const auto compression = CompressionOfPath(path);
  if (!compression) return file;
  const std::string doing = absl::StrCat("cannot write '", path, "'");
  FULCRUM_ASSIGN_OR_RETURN(std::shared_ptr<arrow::util::Codec> codec,
                           FromArrow(arrow::util::Codec::Create(*compression), doing));
  FULCRUM_ASSIGN_OR_RETURN(std::shared_ptr<arrow::io::OutputStream> compressed,
                           FromArrow(arrow::io::CompressedOutputStream::Make(codec.get(), file->stream_), doing));
  // The stream only borrows its codec.
  file->stream_ =
      std::shared_ptr<arrow::io::OutputStream>(compressed.get(), [compressed, codec](arrow::io::OutputStream*) {});
  return file;
}

absl::Status TableFile::Commit() {
  FULCRUM_RETURN_IF_ERROR(FromArrow(stream_->Close(), absl::StrCat("cannot write '", file_.path(), "'")));
  return file_.Commit();
}

namespace {

constexpr std::size_t kBufferBytes = 1 << 20;

/// Text that goes out a large piece at a time.
class TextBuffer {
 public:
  explicit TextBuffer(arrow::io::OutputStream& stream) : stream_(stream) {}
  std::string& text() { return text_; }
  absl::Status FlushIfFull() { return text_.size() < kBufferBytes ? absl::OkStatus() : Flush(); }
  absl::Status Flush() {
    const absl::Status status =
        FromArrow(stream_.Write(text_.data(), static_cast<std::int64_t>(text_.size())), kWriting);
    text_.clear();
    return status;
  }

 private:
  arrow::io::OutputStream& stream_;
  std::string text_;
};

template <typename T>
void AppendShortest(T value, std::string& text) {
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  text.append(buffer, end);
}

/// Numbers and text; what it is must have been checked.
void AppendCell(const arrow::Array& array, std::int64_t row, std::string& text) {
  if (array.IsNull(row)) return;
  VisitNumberArray(array, [&](const auto& typed) {
    using ArrayType = std::decay_t<decltype(typed)>;
    if constexpr (kIsTextArray<ArrayType>) {
      const auto value = typed.GetView(row);
      AppendCsvField({value.data(), value.size()}, text);
    } else if constexpr (kIsDecimalArray<ArrayType>) {
      text += typed.FormatValue(row);
    } else if constexpr (std::is_same_v<ArrayType, arrow::BooleanArray>) {
      text += typed.Value(row) ? "true" : "false";
    } else {
      AppendShortest(NumberFrom<ArrayType>(typed.Value(row)), text);
    }
  });
}

/// One column of the table, as many of the CSV.
struct CsvColumn {
  int column = 0;
  std::size_t width = 0;  // of a list; 0 for a plain one
  bool as_text = false;   // truth values, times, dictionaries
};

class CsvTableWriter final : public TableWriter {
 public:
  CsvTableWriter(std::vector<CsvColumn> columns, std::string header, arrow::io::OutputStream& stream)
      : columns_(std::move(columns)), buffer_(stream) {
    buffer_.text() = std::move(header);
  }

  absl::Status Write(const arrow::RecordBatch& batch) override {
    std::vector<std::vector<std::string>> texts(columns_.size());
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (!columns_[i].as_text) continue;
      FULCRUM_RETURN_IF_ERROR(AppendTextColumn(*batch.column(columns_[i].column), texts[i]));
    }
    for (std::int64_t row = 0; row < batch.num_rows(); ++row) {
      for (std::size_t i = 0; i < columns_.size(); ++i) {
        if (i > 0) buffer_.text().push_back(',');
        if (columns_[i].as_text) {
          AppendCsvField(texts[i][static_cast<std::size_t>(row)], buffer_.text());
        } else {
          FULCRUM_RETURN_IF_ERROR(AppendColumn(columns_[i], *batch.column(columns_[i].column), row));
        }
      }
      buffer_.text().push_back('\n');
      FULCRUM_RETURN_IF_ERROR(buffer_.FlushIfFull());
    }
    return absl::OkStatus();
  }

  absl::Status Finish() override { return buffer_.Flush(); }

 private:
  absl::Status AppendColumn(const CsvColumn& column, const arrow::Array& array, std::int64_t row) {
    if (column.width == 0) {
      AppendCell(array, row, buffer_.text());
      return absl::OkStatus();
    }
    const ListColumn lists(array);
    const bool there = lists.IsThere(row);
    if (there && lists.LengthOf(row) != column.width) {
      return absl::DataLossError(absl::StrCat(kWriting, ": a list has ", lists.LengthOf(row), " values instead of ",
                                              column.width, "; CSV needs as many in every row"));
    }
    for (std::size_t i = 0; i < column.width; ++i) {
      if (i > 0) buffer_.text().push_back(',');
      if (there) AppendCell(lists.elements(), lists.BeginOf(row) + static_cast<std::int64_t>(i), buffer_.text());
    }
    return absl::OkStatus();
  }

  std::vector<CsvColumn> columns_;
  TextBuffer buffer_;
};

class LibsvmTableWriter final : public TableWriter {
 public:
  LibsvmTableWriter(ColumnRoles roles, arrow::io::OutputStream& stream) : roles_(std::move(roles)), buffer_(stream) {}

  absl::Status Write(const arrow::RecordBatch& batch) override {
    std::vector<std::string> labels(static_cast<std::size_t>(batch.num_rows()));
    if (roles_.label >= 0) {
      labels.clear();
      FULCRUM_RETURN_IF_ERROR(AppendTextColumn(*batch.column(roles_.label), labels));
    }
    FULCRUM_ASSIGN_OR_RETURN(const SparseMatrix rows, Decode(batch));
    for (std::size_t row = 0; row < rows.rows(); ++row) {
      if (labels[row].find_first_of(" \t:#") != std::string::npos) {
        return absl::DataLossError(absl::StrCat(kWriting, ": the label '", labels[row],
                                                "' has a space, colon or '#', which LIBSVM's format cannot have"));
      }
      buffer_.text() += labels[row].empty() ? "0" : labels[row];
      for (std::size_t i = 0; i < rows.ColumnsOf(row).size(); ++i) {
        absl::StrAppend(&buffer_.text(), " ", rows.ColumnsOf(row)[i] + 1, ":");
        AppendShortest(rows.ValuesOf(row)[i], buffer_.text());
      }
      buffer_.text().push_back('\n');
      FULCRUM_RETURN_IF_ERROR(buffer_.FlushIfFull());
    }
    return absl::OkStatus();
  }

  absl::Status Finish() override { return buffer_.Flush(); }

 private:
  absl::StatusOr<SparseMatrix> Decode(const arrow::RecordBatch& batch) {
    SparseMatrix rows;
    std::vector<BadCell> bad;
    if (roles_.sparse()) {
      bad = DecodeSparse(batch, roles_.parts[0], rows, {});
    } else {
      SettleWidths(batch, roles_);
      Matrix<double> dense(static_cast<std::size_t>(batch.num_rows()), roles_.width());
      bad = DecodeFeatures<double>(batch, roles_.parts, dense.view(), {});
      if (bad.empty()) AppendNonzeros(dense.view(), rows);
    }
    if (bad.empty()) return rows;
    return absl::DataLossError(absl::StrCat(kWriting, ": column '", roles_.parts[bad[0].part].name,
                                            "': ", bad[0].complaint, "; LIBSVM's format has finite numbers only"));
  }

  static void AppendNonzeros(ConstMatrixView dense, SparseMatrix& rows) {
    for (std::size_t row = 0; row < dense.rows(); ++row) {
      for (std::size_t col = 0; col < dense.cols(); ++col) {
        if (dense(row, col) == 0) continue;
        rows.columns.push_back(static_cast<std::int32_t>(col));
        rows.values.push_back(dense(row, col));
      }
      rows.offsets.push_back(rows.values.size());
    }
  }

  ColumnRoles roles_;
  TextBuffer buffer_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TableWriter>> MakeCsvWriter(const arrow::Schema& schema,
                                                           arrow::io::OutputStream& stream) {
  std::vector<CsvColumn> columns;
  std::string header;
  for (int i = 0; i < schema.num_fields(); ++i) {
    const arrow::Field& field = *schema.field(i);
    CsvColumn column{i, FixedListLength(*field.type()), false};
    column.as_text = CanBeText(*field.type()) && !IsFeatureType(*field.type());
    const bool writable = column.as_text || IsFeatureType(*field.type()) ||
                          (column.width > 0 && IsNumberType(*ListElementType(*field.type())));
    if (!writable) {
      return absl::DataLossError(absl::StrCat("the column '", field.name(), "' of type ", field.type()->ToString(),
                                              " cannot be written as CSV; write Parquet or Arrow IPC instead"));
    }
    for (std::size_t k = 0; k < std::max<std::size_t>(column.width, 1); ++k) {
      if (!header.empty()) header.push_back(',');
      AppendCsvField(column.width == 0 ? field.name() : absl::StrCat(field.name(), "[", k, "]"), header);
    }
    columns.push_back(column);
  }
  header.push_back('\n');
  return std::make_unique<CsvTableWriter>(std::move(columns), std::move(header), stream);
}

absl::StatusOr<std::unique_ptr<TableWriter>> MakeLibsvmWriter(const arrow::Schema& schema,
                                                              arrow::io::OutputStream& stream) {
  FULCRUM_ASSIGN_OR_RETURN(ColumnRoles roles, AssignRoles(schema, {}, "the table"));
  return std::make_unique<LibsvmTableWriter>(std::move(roles), stream);
}

}  // namespace fulcrum::ingest
