// `fulcrum upload FILE...`, and the uploads of `fulcrum campaign create --upload`.
#include <grpcpp/channel.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "fulcrum/v1/campaign_spec.pb.h"
#include "fulcrum/v1/upload_service.grpc.pb.h"
#include "fulcrum/v1/upload_service.pb.h"
#include "pipeline/client/campaign_calls.h"
#include "pipeline/client/campaign_text.h"
#include "pipeline/client/server_connection.h"
#include "pipeline/commands/command_line.h"
#include "pipeline/round/progress.h"
#include "pipeline/text/status.h"
#include "pipeline/text/text_sink.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/formats/table_source.h"

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

/// Sends files through fulcrum.v1.UploadService. Chunks are repeated while the server cannot be reached, and sending
/// continues where the server says that it is.
class UploadCalls {
 public:
  explicit UploadCalls(std::shared_ptr<const ServerConnection> connection)
      : connection_(std::move(connection)), stub_(v1::UploadService::NewStub(connection_->channel())) {}

  /// Called with the bytes that the server has.
  using OnProgress = std::function<void(std::int64_t bytes, std::int64_t of)>;

  /// Sends a file. NotFound if it cannot be read, DataLoss if it changed meanwhile. An upload that fails is deleted as
  /// far as the server can be reached.
  absl::StatusOr<v1::Upload> Send(const std::string& path, Retrier& retrier, const OnProgress& on_progress) {
    FULCRUM_ASSIGN_OR_RETURN(ChunkReader file, ChunkReader::Open(path));
    FULCRUM_ASSIGN_OR_RETURN(const std::string checksum, file.ChecksumText());
    v1::CreateUploadRequest request;
    request.set_file_name(std::filesystem::path(path).filename().string());
    request.set_size_bytes(file.size());
    request.set_request_id(RequestIds().Next());
    v1::CreateUploadResponse created;
    FULCRUM_RETURN_IF_ERROR(Call(&Stub::CreateUpload, request, created, retrier));
    v1::Upload upload = created.upload();
    const absl::Status sent = SendChunks(file, checksum, upload, retrier, on_progress);
    if (sent.ok()) return upload;
    Delete(upload.id(), retrier).IgnoreError();
    return absl::Status(sent.code(), absl::StrCat(path, ": ", sent.message()));
  }

  absl::Status Delete(const std::string& id, Retrier& retrier) {
    v1::DeleteUploadRequest request;
    request.set_upload(id);
    v1::DeleteUploadResponse response;
    return Call(&Stub::DeleteUpload, request, response, retrier);
  }

 private:
  using Stub = v1::UploadService::Stub;

  template <typename Request, typename Response>
  absl::Status Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response& response, Retrier& retrier) {
    return retrier.Call([&]() -> absl::Status {
      grpc::ClientContext context;
      connection_->Prepare(kUploadCallTime, context);
      return FromGrpcStatus((stub_.get()->*method)(&context, request, &response), connection_->server());
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

  std::shared_ptr<const ServerConnection> connection_;
  std::unique_ptr<Stub> stub_;
};

constexpr char kUploadFooter[] =
    R"(Sends files to the server, where they can be the pool of a campaign: the printed names, such as
upload:2f0c5d..., are sources in its specification. The server removes an upload that is not used for a day (its
configuration may say otherwise). 'fulcrum campaign create --upload' does both in one step.

Example:
  fulcrum upload digits.parquet
)";

constexpr RetryPolicy kUploadRetry{.give_up_after = std::chrono::seconds(120)};

struct UploadOptions {
  CampaignOptions campaign = {};
  std::vector<std::string> files = {};
};

absl::Status Upload(const UploadOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.campaign.connection));
  v1::ListUploadsResponse uploads;
  std::string text;
  for (const std::string& file : options.files) {
    FULCRUM_ASSIGN_OR_RETURN(const v1::Upload upload, UploadOneFile(connection, file));
    absl::StrAppend(&text, "upload:", upload.id(), "\n");
    *uploads.add_uploads() = upload;
  }
  return PrintAnswer(options.campaign, text, uploads);
}

CommandRun AddUpload(CLI::App& app) {
  auto options = std::make_shared<UploadOptions>();
  app.add_option("files", options->files, "Files to send, of any format that a pool can have")
      ->type_name("")
      ->required();
  AddCampaignOptions(app, options->campaign);
  app.footer(absl::StrCat(kUploadFooter, "\n", ExitCodeHelp()));
  return [options] { return Upload(*options); };
}

}  // namespace

absl::StatusOr<v1::Upload> UploadOneFile(const std::shared_ptr<const ServerConnection>& connection,
                                         const std::string& file) {
  StopFlag stop;
  const StopOnSignals signals(stop);
  Retrier retrier(kUploadRetry, WallTiming(stop), /*seed=*/0);
  Progress progress("fulcrum upload", ChooseProgressStyle(/*quiet=*/false, /*verbose=*/false));
  auto upload = UploadCalls(connection).Send(file, retrier, [&](std::int64_t bytes, std::int64_t of) {
    progress.Update("MiB", static_cast<std::size_t>(bytes >> 20), static_cast<std::size_t>(of >> 20));
  });
  progress.Clear();
  return upload;
}

absl::StatusOr<std::vector<std::string>> UploadSources(const std::shared_ptr<const ServerConnection>& connection,
                                                       v1::CampaignSpec& spec) {
  std::vector<std::string> ids;
  const auto replace = [&](auto& sources) -> absl::Status {
    if (sources.empty()) return absl::OkStatus();
    FULCRUM_ASSIGN_OR_RETURN(const auto files, ingest::ListSources({sources.begin(), sources.end()}));
    sources.Clear();
    for (const ingest::SourceFile& file : files) {
      if (!file.partitions.empty()) {
        return absl::InvalidArgumentError(absl::StrCat("'", file.path, "' is in a partitioned folder, which cannot be ",
                                                       "uploaded; join its files with 'fulcrum convert' first"));
      }
      FULCRUM_ASSIGN_OR_RETURN(const v1::Upload upload, UploadOneFile(connection, file.path));
      ids.push_back(upload.id());
      *sources.Add() = absl::StrCat("upload:", upload.id());
    }
    return absl::OkStatus();
  };
  FULCRUM_RETURN_IF_ERROR(replace(*spec.mutable_pool()->mutable_sources()));
  if (spec.stop().has_accuracy()) {
    FULCRUM_RETURN_IF_ERROR(replace(*spec.mutable_stop()->mutable_accuracy()->mutable_sources()));
  }
  return ids;
}

void DeleteUploads(const std::shared_ptr<const ServerConnection>& connection, const std::vector<std::string>& ids) {
  const StopFlag stop;
  Retrier retrier(kUploadRetry, WallTiming(stop), /*seed=*/0);
  // The server removes those that stay.
  for (const std::string& id : ids) UploadCalls(connection).Delete(id, retrier).IgnoreError();
}

Command UploadCommand() {
  return {"upload", "Campaigns", "Send files to a server, to be the pool of a campaign", AddUpload};
}

}  // namespace fulcrum::pipeline
