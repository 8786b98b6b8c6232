#include "storage/pool/part_writer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "arrow/io/file.h"
#include "arrow/ipc/reader.h"
#include "arrow/ipc/writer.h"
#include "arrow/record_batch.h"
#include "stages/core/atomic_file.h"
#include "stages/core/direct_file.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"

namespace fulcrum::storage {
namespace {

arrow::ipc::IpcWriteOptions WriteOptions() {
  arrow::ipc::IpcWriteOptions options;
  options.alignment = 64;
  options.use_threads = false;
  return options;
}

}  // namespace

/// The file as Arrow's writer sees it.
class PartWriter::Stream final : public arrow::io::OutputStream {
 public:
  explicit Stream(std::unique_ptr<DirectFile> file) : file_(std::move(file)) {}

  arrow::Status Write(const void* data, std::int64_t bytes) override {
    status_.Update(file_->Write({static_cast<const char*>(data), static_cast<std::size_t>(bytes)}));
    return status_.ok() ? arrow::Status::OK() : arrow::Status::IOError(std::string(status_.message()));
  }
  arrow::Result<std::int64_t> Tell() const override { return file_->size(); }
  arrow::Status Close() override {
    closed_ = true;
    return arrow::Status::OK();
  }
  bool closed() const override { return closed_; }

  /// Why writing failed, where it did; `otherwise` where it did not.
  absl::Status Explain(const absl::Status& otherwise) const { return status_.ok() ? otherwise : status_; }
  absl::Status Finish() { return file_->Finish(); }

 private:
  std::unique_ptr<DirectFile> file_;
  absl::Status status_;
  bool closed_ = false;
};

PartWriter::PartWriter(std::string path, std::string file) : path_(std::move(path)) {
  doing_ = absl::StrCat("cannot write '", path_, "'");
  part_.file = std::move(file);
}

PartWriter::~PartWriter() = default;

absl::StatusOr<std::unique_ptr<PartWriter>> PartWriter::Create(const std::string& folder, const std::string& file,
                                                               std::shared_ptr<arrow::Schema> schema) {
  std::unique_ptr<PartWriter> writer(new PartWriter(absl::StrCat(folder, "/", file), file));
  FULCRUM_ASSIGN_OR_RETURN(auto direct, DirectFile::Create(writer->path_));
  writer->stream_ = std::make_shared<Stream>(std::move(direct));
  FULCRUM_ASSIGN_OR_RETURN(
      writer->writer_,
      ingest::FromArrow(arrow::ipc::MakeFileWriter(writer->stream_, schema, WriteOptions()), writer->doing_));
  return writer;
}

absl::Status PartWriter::Append(const PoolBlock& block) {
  FULCRUM_RETURN_IF_ERROR(stream_->Explain(ingest::FromArrow(writer_->WriteRecordBatch(*block.batch), doing_)));
  part_.blocks.push_back({block.batch->num_rows(), block.checksum});
  rows_ += block.batch->num_rows();
  return absl::OkStatus();
}

absl::StatusOr<PoolPart> PartWriter::Finish() {
  FULCRUM_RETURN_IF_ERROR(stream_->Explain(ingest::FromArrow(writer_->Close(), doing_)));
  FULCRUM_ASSIGN_OR_RETURN(part_.bytes, ingest::FromArrow(stream_->Tell(), doing_));
  FULCRUM_RETURN_IF_ERROR(stream_->Finish());
  return std::move(part_);
}

absl::Status WriteBatchFile(const std::string& path, const arrow::RecordBatch& batch) {
  const std::string doing = absl::StrCat("cannot write '", path, "'");
  FULCRUM_ASSIGN_OR_RETURN(const auto stream, ingest::FromArrow(arrow::io::FileOutputStream::Open(path), doing));
  FULCRUM_ASSIGN_OR_RETURN(
      const auto writer, ingest::FromArrow(arrow::ipc::MakeFileWriter(stream, batch.schema(), WriteOptions()), doing));
  FULCRUM_RETURN_IF_ERROR(ingest::FromArrow(writer->WriteRecordBatch(batch), doing));
  FULCRUM_RETURN_IF_ERROR(ingest::FromArrow(writer->Close(), doing));
  FULCRUM_RETURN_IF_ERROR(ingest::FromArrow(stream->Close(), doing));
  return SyncFile(path);
}

absl::StatusOr<std::shared_ptr<arrow::RecordBatch>> ReadBatchFile(const std::string& path) {
  const std::string doing = absl::StrCat("cannot read '", path, "'");
  FULCRUM_ASSIGN_OR_RETURN(const auto file, ingest::FromArrow(arrow::io::ReadableFile::Open(path), doing));
  FULCRUM_ASSIGN_OR_RETURN(const auto reader, ingest::FromArrow(arrow::ipc::RecordBatchFileReader::Open(file), doing));
  if (reader->num_record_batches() != 1) return absl::DataLossError(absl::StrCat(doing, ": it must have one batch"));
  FULCRUM_ASSIGN_OR_RETURN(const auto batch, ingest::FromArrow(reader->ReadRecordBatch(0), doing));
  FULCRUM_RETURN_IF_ERROR(ingest::FromArrow(batch->ValidateFull(), doing));
  return batch;
}

}  // namespace fulcrum::storage
