#include "pipeline/client/upload_calls.h"

#include <grpcpp/channel.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "fulcrum/v1/upload_service.grpc.pb.h"
#include "pipeline/client/campaign_calls.h"
#include "pipeline/client/server_connection.h"
#include "pipeline/text/status.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::chrono::milliseconds kUploadCallTime{30'000};
constexpr std::size_t kUploadChunkBytes = std::size_t{1} << 20;

/// A file that is read in pieces, more than once.
class ChunkReader {
 public:
  static absl::StatusOr<ChunkReader> Open(const std::string& path) {
    std::error_code error;
    const bool regular = std::filesystem::is_regular_file(path, error);
    const auto size = regular ? std::filesystem::file_size(path, error) : 0;
    ChunkReader reader(path, static_cast<std::int64_t>(size));
    if (!regular || error || !reader.stream_) {
      return absl::NotFoundError(absl::StrCat("cannot read '", path, "': it must be a file"));
    }
    if (size == 0) return absl::InvalidArgumentError(absl::StrCat("'", path, "' is empty"));
    return reader;
  }

  std::int64_t size() const { return size_; }
  absl::StatusOr<std::string> Read(std::int64_t offset) {
    const auto wanted = std::min<std::int64_t>(static_cast<std::int64_t>(kUploadChunkBytes), size_ - offset);
    std::string bytes(static_cast<std::size_t>(wanted), '\0');
    stream_.clear();
    stream_.seekg(offset);
    stream_.read(bytes.data(), wanted);
    if (stream_.gcount() == wanted) return bytes;
    return absl::DataLossError(absl::StrCat("'", path_, "' became shorter while it was sent"));
  }
  absl::StatusOr<std::string> ChecksumText() {
    Crc32 crc;
    for (std::int64_t offset = 0; offset < size_;) {
      FULCRUM_ASSIGN_OR_RETURN(const std::string bytes, Read(offset));
      crc.Add(bytes);
      offset += static_cast<std::int64_t>(bytes.size());
    }
    return crc.ToText();
  }

 private:
  ChunkReader(std::string path, std::int64_t size)
      : path_(std::move(path)), size_(size), stream_(path_, std::ios::binary) {}

  std::string path_;
  std::int64_t size_;
  std::ifstream stream_;
};

}  // namespace

struct UploadCalls::Impl {
  using Stub = v1::UploadService::Stub;

  template <typename Request, typename Response>
  absl::Status Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response& response, Retrier& retrier) {
    return retrier.Call([&]() -> absl::Status {
      grpc::ClientContext context;
      connection->Prepare(kUploadCallTime, context);
      return FromGrpcStatus((stub.get()->*method)(&context, request, &response), connection->server());
    });
  }

  /// Sends the chunks that the server does not have.
  absl::Status SendChunks(ChunkReader& file, const std::string& checksum, v1::Upload& upload, Retrier& retrier,
                          const OnProgress& on_progress) {
    while (upload.state() != v1::UPLOAD_STATE_COMPLETE) {
      v1::WriteUploadRequest request;
      request.set_upload(upload.id());
      request.set_offset_bytes(upload.received_bytes());
      FULCRUM_ASSIGN_OR_RETURN(*request.mutable_chunk(), file.Read(upload.received_bytes()));
      const auto end = request.offset_bytes() + static_cast<std::int64_t>(request.chunk().size());
      if (end == file.size()) request.set_checksum(checksum);
      v1::WriteUploadResponse response;
      const absl::Status written = Call(&Stub::WriteUpload, request, response, retrier);
      if (absl::IsOutOfRange(written)) {
        // A server whose machine lost power has less than it said.
        v1::GetUploadRequest get;
        get.set_upload(upload.id());
        v1::GetUploadResponse got;
        FULCRUM_RETURN_IF_ERROR(Call(&Stub::GetUpload, get, got, retrier));
        if (got.upload().received_bytes() == upload.received_bytes()) return written;
        upload = got.upload();
        continue;
      }
      FULCRUM_RETURN_IF_ERROR(written);
      upload = response.upload();
      if (on_progress) on_progress(upload.received_bytes(), file.size());
    }
    return absl::OkStatus();
  }

  std::shared_ptr<const ServerConnection> connection;
  std::unique_ptr<Stub> stub;
};

UploadCalls::UploadCalls(std::shared_ptr<const ServerConnection> connection)
    : impl_(new Impl{connection, v1::UploadService::NewStub(connection->channel())}) {}

UploadCalls::~UploadCalls() = default;

absl::StatusOr<v1::Upload> UploadCalls::Send(const std::string& path, Retrier& retrier, const OnProgress& on_progress) {
  FULCRUM_ASSIGN_OR_RETURN(ChunkReader file, ChunkReader::Open(path));
  FULCRUM_ASSIGN_OR_RETURN(const std::string checksum, file.ChecksumText());
  v1::CreateUploadRequest request;
  request.set_file_name(std::filesystem::path(path).filename().string());
  request.set_size_bytes(file.size());
  request.set_request_id(RequestIds().Next());
  v1::CreateUploadResponse created;
  FULCRUM_RETURN_IF_ERROR(impl_->Call(&Impl::Stub::CreateUpload, request, created, retrier));
  v1::Upload upload = created.upload();
  const absl::Status sent = impl_->SendChunks(file, checksum, upload, retrier, on_progress);
  if (sent.ok()) return upload;
  Delete(upload.id(), retrier).IgnoreError();
  return absl::Status(sent.code(), absl::StrCat(path, ": ", sent.message()));
}

absl::Status UploadCalls::Delete(const std::string& id, Retrier& retrier) {
  v1::DeleteUploadRequest request;
  request.set_upload(id);
  v1::DeleteUploadResponse response;
  return impl_->Call(&Impl::Stub::DeleteUpload, request, response, retrier);
}

}  // namespace fulcrum::pipeline
