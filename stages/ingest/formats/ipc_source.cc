// Arrow IPC: files, which end with an index of their batches, and streams, which have none and may be compressed.
//
// As hostile as Parquet, and treated so: limits, every batch checked in full, errors that name the file and the batch.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "arrow/buffer.h"
#include "arrow/io/interfaces.h"
#include "arrow/ipc/options.h"
#include "arrow/ipc/reader.h"
#include "arrow/record_batch.h"
#include "arrow/type.h"
#include "arrow/util/byte_size.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/formats/input_stream.h"
#include "stages/ingest/formats/table_source.h"

namespace fulcrum::ingest {
namespace {

constexpr char kFileMagic[] = "ARROW1";
constexpr char kParquetMagic[] = "PAR1";
constexpr std::uint32_t kContinuation = 0xFFFFFFFF;
constexpr std::int64_t kFewestRowsPerPiece = 16;

/// Batches of either kind, one after the other.
class IpcBatches {
 public:
  virtual ~IpcBatches() = default;
  virtual std::shared_ptr<arrow::Schema> schema() const = 0;
  /// Null after the last.
  virtual arrow::Result<std::shared_ptr<arrow::RecordBatch>> Next() = 0;
};

class FileBatches final : public IpcBatches {
 public:
  explicit FileBatches(std::shared_ptr<arrow::ipc::RecordBatchFileReader> reader) : reader_(std::move(reader)) {}
  std::shared_ptr<arrow::Schema> schema() const override { return reader_->schema(); }
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> Next() override {
    if (next_ == reader_->num_record_batches()) return std::shared_ptr<arrow::RecordBatch>();
    return reader_->ReadRecordBatch(next_++);
  }

 private:
  std::shared_ptr<arrow::ipc::RecordBatchFileReader> reader_;
  int next_ = 0;
};

class StreamBatches final : public IpcBatches {
 public:
  explicit StreamBatches(std::shared_ptr<arrow::ipc::RecordBatchStreamReader> reader) : reader_(std::move(reader)) {}
  std::shared_ptr<arrow::Schema> schema() const override { return reader_->schema(); }
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> Next() override {
    std::shared_ptr<arrow::RecordBatch> batch;
    ARROW_RETURN_NOT_OK(reader_->ReadNext(&batch));
    return batch;
  }

 private:
  std::shared_ptr<arrow::ipc::RecordBatchStreamReader> reader_;
};

/// Whether it is the file format; Invalid if it is neither the file format nor a stream. A stream begins with the
/// length of its first message, which is taken at its word: any other file would make the reader ask for gigabytes.
arrow::Result<bool> IsFileFormat(arrow::io::RandomAccessFile& file) {
  ARROW_ASSIGN_OR_RAISE(const std::int64_t size, file.GetSize());
  ARROW_ASSIGN_OR_RAISE(const auto buffer, file.ReadAt(0, 2 * sizeof(std::uint32_t)));
  const std::string beginning = buffer->ToString();
  if (absl::StartsWith(beginning, kFileMagic)) return true;
  if (absl::StartsWith(beginning, kParquetMagic)) {
    return arrow::Status::Invalid("this is a Parquet file; send or name it as one, or convert it to Arrow IPC first");
  }
  std::uint32_t words[2] = {0, 0};
  std::memcpy(words, beginning.data(), std::min(beginning.size(), sizeof(words)));
  const std::uint32_t length = words[0] == kContinuation ? words[1] : words[0];
  if (beginning.size() < sizeof(words) || static_cast<std::int64_t>(length) > size) {
    return arrow::Status::Invalid("it does not begin like an Arrow IPC stream or file");
  }
  return false;
}

arrow::Result<std::unique_ptr<IpcBatches>> OpenBatches(std::shared_ptr<arrow::io::RandomAccessFile> file,
                                                       std::shared_ptr<arrow::io::InputStream> stream,
                                                       const arrow::ipc::IpcReadOptions& options) {
  if (file != nullptr) {
    ARROW_ASSIGN_OR_RAISE(auto reader, arrow::ipc::RecordBatchFileReader::Open(std::move(file), options));
    return std::make_unique<FileBatches>(std::move(reader));
  }
  ARROW_ASSIGN_OR_RAISE(auto reader, arrow::ipc::RecordBatchStreamReader::Open(std::move(stream), options));
  return std::make_unique<StreamBatches>(std::move(reader));
}

class IpcSource final : public TypedSource {
 public:
  IpcSource(std::string path, const InputLimits& limits) : TypedSource(std::move(path), limits, "Arrow IPC") {}

  absl::StatusOr<std::shared_ptr<arrow::RecordBatch>> Next() override {
    while (pending_ == nullptr && !column_names().empty()) {
      const std::string doing = absl::StrCat(this->doing(), ", batch ", batches_read_);
      FULCRUM_RETURN_IF_ERROR(WithoutExceptions(doing, [&] { return ReadOrThrow(doing, pending_); }));
      if (pending_ == nullptr) break;
      ++batches_read_;
      if (pending_->num_rows() == 0) pending_ = nullptr;
    }
    return TakePiece();
  }

  std::vector<std::string> PlacesOfRows(std::span<const std::uint64_t> rows) const override {
    std::vector<std::string> places;
    for (std::uint64_t row : rows) places.push_back(absl::StrCat("row ", row));
    return places;
  }

 private:
  /// A batch may be the whole file; parallel callers need smaller pieces.
  std::shared_ptr<arrow::RecordBatch> TakePiece() {
    if (pending_ == nullptr) return nullptr;
    if (piece_rows_ == 0) {
      const std::int64_t a_row = arrow::util::TotalBufferSize(*pending_) / pending_->num_rows() + 1;
      piece_rows_ = std::max(limits().batch_bytes / a_row, kFewestRowsPerPiece);
    }
    const std::shared_ptr<arrow::RecordBatch> piece = pending_->Slice(0, piece_rows_);
    const bool whole = piece->num_rows() == pending_->num_rows();
    pending_ = whole ? nullptr : pending_->Slice(piece_rows_);
    if (whole) piece_rows_ = 0;
    return piece;
  }

  absl::Status ReadOrThrow(const std::string& doing, std::shared_ptr<arrow::RecordBatch>& batch) {
    FULCRUM_ASSIGN_OR_RETURN(batch, FromArrow(batches_->Next(), doing));
    if (batch == nullptr) return absl::OkStatus();
    FULCRUM_RETURN_IF_ERROR(FromArrow(batch->ValidateFull(), doing));
    if (batch->schema()->Equals(*schema(), /*check_metadata=*/false)) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(doing, ": its columns are not those that the file announced"));
  }

  absl::Status OpenOrThrow(const TableRequest& request) override {
    arrow::ipc::IpcReadOptions options;
    options.memory_pool = CappedPool(limits().max_memory_bytes);
    options.use_threads = false;
    // Reading through pointers that are not aligned is undefined; a hostile file may put its buffers anywhere.
    options.ensure_alignment = arrow::ipc::Alignment::kDataTypeSpecificAlignment;
    FULCRUM_RETURN_IF_ERROR(Reopen(options));
    const std::shared_ptr<arrow::Schema> whole = batches_->schema();
    FULCRUM_RETURN_IF_ERROR(CheckColumnCount(whole->num_fields(), limits(), path()));
    FULCRUM_ASSIGN_OR_RETURN(options.included_fields, ChooseColumns(*whole, request));
    // No fields would mean all of them to Arrow; Next asks for none.
    const bool all_or_none = column_names().size() == all_column_names().size() || column_names().empty();
    return all_or_none ? absl::OkStatus() : Reopen(options);
  }

  absl::Status Reopen(const arrow::ipc::IpcReadOptions& options) {
    std::shared_ptr<arrow::io::RandomAccessFile> file;
    std::shared_ptr<arrow::io::InputStream> stream;
    if (WithoutCompressionEnding(path()) == path()) {
      FULCRUM_ASSIGN_OR_RETURN(file, OpenRandomAccess(path(), limits().max_memory_bytes));
      FULCRUM_ASSIGN_OR_RETURN(const bool is_file, FromArrow(IsFileFormat(*file), doing()));
      if (!is_file) file = nullptr;
    }
    if (file == nullptr) {
      FULCRUM_ASSIGN_OR_RETURN(stream, OpenInput(path(), limits().max_memory_bytes));
    }
    FULCRUM_ASSIGN_OR_RETURN(batches_, FromArrow(OpenBatches(std::move(file), std::move(stream), options), doing()));
    return absl::OkStatus();
  }

  std::unique_ptr<IpcBatches> batches_;
  int batches_read_ = 0;
  std::shared_ptr<arrow::RecordBatch> pending_;  // what of the last batch has not been given out yet
  std::int64_t piece_rows_ = 0;                  // of the pieces of that batch
};

}  // namespace

absl::StatusOr<std::unique_ptr<TableSource>> OpenIpc(const std::string& path, const TableRequest& request) {
  auto source = std::make_unique<IpcSource>(path, request.limits);
  FULCRUM_RETURN_IF_ERROR(source->Open(request));
  return source;
}

}  // namespace fulcrum::ingest
