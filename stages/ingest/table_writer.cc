#include "stages/ingest/table_writer.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "arrow/io/compressed.h"
#include "arrow/io/file.h"
#include "arrow/io/memory.h"
#include "arrow/ipc/writer.h"
#include "arrow/record_batch.h"
#include "arrow/table.h"
#include "arrow/util/compression.h"
#include "parquet/arrow/writer.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/input_stream.h"
#include "stages/ingest/no_exceptions.h"
#include "stages/ingest/text_table_writer.h"

namespace fulcrum::ingest {
namespace {

constexpr char kWriting[] = "cannot write the table";

/// Arrow wants to share what it writes to; whoever owns the stream outlives the writer.
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
                                                               arrow::io::OutputStream& stream) {
  const auto properties =
      parquet::WriterProperties::Builder().compression(arrow::Compression::ZSTD)->enable_page_checksum()->build();
  const auto arrow_properties = parquet::ArrowWriterProperties::Builder().store_schema()->build();
  FULCRUM_ASSIGN_OR_RETURN(
      auto writer, FromArrow(parquet::arrow::FileWriter::Open(*schema, arrow::default_memory_pool(), Borrowed(stream),
                                                              properties, arrow_properties),
                             kWriting));
  return std::make_unique<ParquetTableWriter>(std::move(writer));
}

absl::StatusOr<std::unique_ptr<TableWriter>> MakeIpcWriter(bool file, const std::shared_ptr<arrow::Schema>& schema,
                                                           arrow::io::OutputStream& stream) {
  arrow::ipc::IpcWriteOptions options;
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
                                                             arrow::io::OutputStream& stream) {
  switch (format) {
    case TableFormat::kCsv:
      return MakeCsvWriter(*schema, stream);
    case TableFormat::kLibsvm:
      return MakeLibsvmWriter(*schema, stream);
    case TableFormat::kParquet:
      return MakeParquetWriter(schema, stream);
    default:
      return MakeIpcWriter(format == TableFormat::kIpcFile, schema, stream);
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

absl::StatusOr<std::unique_ptr<TableFile>> TableFile::Create(const std::string& path) {
  std::unique_ptr<TableFile> file(new TableFile());
  file->path_ = path;
  file->partial_path_ = absl::StrCat(path, ".partial-", getpid());
  file->doing_ = absl::StrCat("cannot write '", path, "'");
  FULCRUM_ASSIGN_OR_RETURN(file->file_,
                           FromArrow(arrow::io::FileOutputStream::Open(file->partial_path_), file->doing_));
  file->stream_ = file->file_;
  const auto compression = CompressionOfPath(path);
  if (!compression) return file;
  FULCRUM_ASSIGN_OR_RETURN(std::shared_ptr<arrow::util::Codec> codec,
                           FromArrow(arrow::util::Codec::Create(*compression), file->doing_));
  FULCRUM_ASSIGN_OR_RETURN(std::shared_ptr<arrow::io::OutputStream> compressed,
                           FromArrow(arrow::io::CompressedOutputStream::Make(codec.get(), file->file_), file->doing_));
  // The stream only borrows its codec.
  file->stream_ =
      std::shared_ptr<arrow::io::OutputStream>(compressed.get(), [compressed, codec](arrow::io::OutputStream*) {});
  return file;
}

TableFile::~TableFile() {
  if (!partial_path_.empty()) unlink(partial_path_.c_str());
}

absl::Status TableFile::Commit() {
  if (stream_ != file_) FULCRUM_RETURN_IF_ERROR(FromArrow(stream_->Close(), doing_));
  if (!file_->closed()) FULCRUM_RETURN_IF_ERROR(FromArrow(file_->Close(), doing_));
  if (std::rename(partial_path_.c_str(), path_.c_str()) != 0) {
    return absl::UnavailableError(absl::StrCat(doing_, ": it cannot be renamed to its final name"));
  }
  partial_path_.clear();
  return absl::OkStatus();
}

}  // namespace fulcrum::ingest
