#include "storage/pool/part_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "arrow/io/file.h"
#include "arrow/ipc/reader.h"
#include "arrow/ipc/writer.h"
#include "arrow/record_batch.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"

namespace fulcrum::storage {
namespace {

constexpr std::int64_t kWritebackBytes = std::int64_t{32} << 20;

arrow::ipc::IpcWriteOptions WriteOptions() {
  arrow::ipc::IpcWriteOptions options;
  options.alignment = 64;
  options.use_threads = false;
  return options;
}

}  // namespace

PartWriter::PartWriter(std::string path, std::string file, Durability durability)
    : path_(std::move(path)), durability_(durability) {
  doing_ = absl::StrCat("cannot write '", path_, "'");
  part_.file = std::move(file);
}

PartWriter::~PartWriter() = default;

absl::StatusOr<std::unique_ptr<PartWriter>> PartWriter::Create(const std::string& folder, const std::string& file,
                                                               std::shared_ptr<arrow::Schema> schema,
                                                               Durability durability) {
  std::unique_ptr<PartWriter> writer(new PartWriter(absl::StrCat(folder, "/", file), file, durability));
  FULCRUM_ASSIGN_OR_RETURN(writer->stream_,
                           ingest::FromArrow(arrow::io::FileOutputStream::Open(writer->path_), writer->doing_));
  FULCRUM_ASSIGN_OR_RETURN(
      writer->writer_,
      ingest::FromArrow(arrow::ipc::MakeFileWriter(writer->stream_, schema, WriteOptions()), writer->doing_));
  return writer;
}

absl::Status PartWriter::Append(const PoolBlock& block) {
  FULCRUM_RETURN_IF_ERROR(ingest::FromArrow(writer_->WriteRecordBatch(*block.batch), doing_));
  part_.blocks.push_back({block.batch->num_rows(), block.checksum});
  rows_ += block.batch->num_rows();
  return StartWriteback();
}

// The disk works along from the beginning, so that the sync at the end has little left to wait for.
absl::Status PartWriter::StartWriteback() {
  if (durability_ == Durability::kAgainstKill) return absl::OkStatus();
  FULCRUM_ASSIGN_OR_RETURN(const std::int64_t position, ingest::FromArrow(stream_->Tell(), doing_));
  if (position - bytes_sent_ < kWritebackBytes) return absl::OkStatus();
  (void)sync_file_range(stream_->file_descriptor(), bytes_sent_, position - bytes_sent_, SYNC_FILE_RANGE_WRITE);
  bytes_sent_ = position;
  return absl::OkStatus();
}

absl::StatusOr<PoolPart> PartWriter::Finish() {
  FULCRUM_RETURN_IF_ERROR(ingest::FromArrow(writer_->Close(), doing_));
  FULCRUM_ASSIGN_OR_RETURN(part_.bytes, ingest::FromArrow(stream_->Tell(), doing_));
  if (durability_ == Durability::kAgainstPowerLoss && fsync(stream_->file_descriptor()) != 0) {
    return absl::UnavailableError(absl::StrCat(doing_, ": the disk did not confirm the data (fsync)"));
  }
  FULCRUM_RETURN_IF_ERROR(ingest::FromArrow(stream_->Close(), doing_));
  return std::move(part_);
}

absl::Status WriteBatchFile(const std::string& path, const arrow::RecordBatch& batch, Durability durability) {
  const std::string doing = absl::StrCat("cannot write '", path, "'");
  FULCRUM_ASSIGN_OR_RETURN(const auto stream, ingest::FromArrow(arrow::io::FileOutputStream::Open(path), doing));
  FULCRUM_ASSIGN_OR_RETURN(
      const auto writer, ingest::FromArrow(arrow::ipc::MakeFileWriter(stream, batch.schema(), WriteOptions()), doing));
  FULCRUM_RETURN_IF_ERROR(ingest::FromArrow(writer->WriteRecordBatch(batch), doing));
  FULCRUM_RETURN_IF_ERROR(ingest::FromArrow(writer->Close(), doing));
  FULCRUM_RETURN_IF_ERROR(ingest::FromArrow(stream->Close(), doing));
  return durability == Durability::kAgainstKill ? absl::OkStatus() : SyncFile(path);
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
