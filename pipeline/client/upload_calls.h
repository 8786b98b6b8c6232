// Sends files to a server, through fulcrum.v1.UploadService, so that they can be the pool of a campaign there.
//
// Chunks are repeated while the server cannot be reached, and sending continues where the server says that it is.
// Thread-safe as far as the Retrier is, which belongs to one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/client/retry.h"

namespace fulcrum::v1 {
class Upload;
}  // namespace fulcrum::v1

namespace fulcrum::pipeline {

class ServerConnection;

class UploadCalls {
 public:
  explicit UploadCalls(std::shared_ptr<const ServerConnection> connection);
  ~UploadCalls();

  /// Called with the bytes that the server has.
  using OnProgress = std::function<void(std::int64_t bytes, std::int64_t of)>;

  /// Sends a file. NotFound if it cannot be read, DataLoss if it changed meanwhile. An upload that fails is deleted as
  /// far as the server can be reached.
  absl::StatusOr<v1::Upload> Send(const std::string& path, Retrier& retrier, const OnProgress& on_progress);
  absl::Status Delete(const std::string& id, Retrier& retrier);

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace fulcrum::pipeline
