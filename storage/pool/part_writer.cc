#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "arrow/io/file.h"
#include "arrow/ipc/reader.h"
#include "arrow/ipc/writer.h"
#include "arrow/record_batch.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "storage/pool/pool_block.h"

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

  /// Why writing failed, or `otherwise` if it did not.
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

namespace {

// Large enough for the full speed of a disk, and few: one is filled, one is written, one waits.
constexpr std::size_t kBufferBytes = std::size_t{4} << 20;
constexpr int kBuffers = 3;
// What devices ask of memory, offsets and lengths.
constexpr std::size_t kAlignment = 4096;

}  // namespace

DirectFile::DirectFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {
  for (int i = 0; i < kBuffers; ++i) {
    empty_.emplace_back(static_cast<char*>(std::aligned_alloc(kAlignment, kBufferBytes)));
  }
  thread_ = std::thread([this] { WriteAlong(); });
}

absl::StatusOr<std::unique_ptr<DirectFile>> DirectFile::Create(const std::string& path) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
  int descriptor = open(path.c_str(), kFlags | O_DIRECT, 0666);
  if (descriptor < 0 && errno == EINVAL) descriptor = open(path.c_str(), kFlags, 0666);
  if (descriptor < 0) {
    return absl::InvalidArgumentError(absl::StrCat("cannot write '", path, "': ", std::strerror(errno)));
  }
  return std::unique_ptr<DirectFile>(new DirectFile(path, descriptor));
}

DirectFile::~DirectFile() {
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  close(descriptor_);
}

absl::Status DirectFile::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    if (filling_ == nullptr) {
      FULCRUM_ASSIGN_OR_RETURN(filling_, TakeBuffer());
    }
    const std::size_t count = std::min(bytes.size(), kBufferBytes - filled_);
    std::memcpy(filling_.get() + filled_, bytes.data(), count);
    filled_ += count;
    size_ += static_cast<std::int64_t>(count);
    bytes.remove_prefix(count);
    if (filled_ == kBufferBytes) Send();
  }
  return absl::OkStatus();
}

absl::StatusOr<DirectFile::Buffer> DirectFile::TakeBuffer() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !empty_.empty(); });
  FULCRUM_RETURN_IF_ERROR(result_);
  Buffer buffer = std::move(empty_.back());
  empty_.pop_back();
  if (buffer == nullptr) return absl::ResourceExhaustedError(absl::StrCat("no memory to write '", path_, "'"));
  return buffer;
}

void DirectFile::Send() {
  // The padding of the last piece is cut off in the end.
  const std::size_t whole = (filled_ + kAlignment - 1) / kAlignment * kAlignment;
  std::memset(filling_.get() + filled_, 0, whole - filled_);
  {
    const std::scoped_lock lock(mutex_);
    sent_.push_back({std::move(filling_), whole, size_ - static_cast<std::int64_t>(filled_)});
  }
  filled_ = 0;
  changed_.notify_all();
}

void DirectFile::WriteAlong() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !sent_.empty(); });
    if (sent_.empty()) return;
    Piece piece = std::move(sent_.front());
    sent_.pop_front();
    if (result_.ok()) {
      lock.unlock();
      const absl::Status written = WritePiece(piece);
      lock.lock();
      result_ = written;
    }
    empty_.push_back(std::move(piece.buffer));
    changed_.notify_all();
  }
}

bool DirectFile::StopBeingDirect() const {
  const int error = errno, flags = fcntl(descriptor_, F_GETFL);
  const bool stopped = flags >= 0 && (flags & O_DIRECT) != 0 && fcntl(descriptor_, F_SETFL, flags & ~O_DIRECT) == 0;
  errno = error;
  return stopped;
}

absl::Status DirectFile::WritePiece(const Piece& piece) const {
  for (std::size_t done = 0; done < piece.bytes;) {
    const ssize_t written = pwrite(descriptor_, piece.buffer.get() + done, piece.bytes - done,
                                   piece.offset + static_cast<std::int64_t>(done));
    if (written >= 0) done += static_cast<std::size_t>(written);
    if (written >= 0 || errno == EINTR) continue;
    // Some file systems accept the flag when the file is opened, and then fail to write.
    if (errno == EINVAL && StopBeingDirect()) continue;
    return Error("write");
  }
  return absl::OkStatus();
}

absl::Status DirectFile::Finish() {
  if (filled_ > 0) Send();
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
  FULCRUM_RETURN_IF_ERROR(result_);
  if (ftruncate(descriptor_, size_) != 0) return Error("end");
  if (fsync(descriptor_) != 0) return Error("make durable");
  return absl::OkStatus();
}

absl::Status DirectFile::Error(std::string_view doing) const {
  const int error = errno;
  const std::string message = absl::StrCat("cannot ", std::string(doing), " '", path_, "': ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT) {
    return absl::ResourceExhaustedError(absl::StrCat(message, "; make room and run again"));
  }
  return absl::UnavailableError(message);
}

}  // namespace fulcrum::storage
