// What the web server answers: the page at "/", the API as JSON, sessions, and media files of the pool folder.
//
//   GET    /, /app.js, ...                   the page; compiled into the program
//   GET    /openapi.json                     the API for tools, made from the .proto files
//   POST   /fulcrum.v1.SERVICE/METHOD        a call, see connect_gateway.h
//   POST   /session  {"token": "..."}        signs in: the token is kept in a cookie that scripts cannot read
//   DELETE /session                          signs out
//   GET    /files/PATH                       an image, a sound or a video inside the folder of pools
//
// A browser may use the session only from the page itself: a POST of another origin is refused, and a server without
// tokens answers only under a loopback name, so that no other web site can reach it through a browser. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "pipeline/server/executor.h"
#include "pipeline/web/connect_gateway.h"
#include "pipeline/web/web_server.h"

namespace fulcrum::pipeline {

class WebSite {
 public:
  struct Options {
    std::string pool_root = {};
    bool tokens = true;
  };

  WebSite(const Options& options, const std::shared_ptr<grpc::Channel>& channel);

  void Handle(WebRequest request, const std::shared_ptr<WebExchange>& exchange);

 private:
  absl::Status CheckOrigin(const WebRequest& request) const;
  void Call(const google::protobuf::MethodDescriptor& method, WebRequest request,
            const std::shared_ptr<WebExchange>& exchange);
  void Stream(GatewayCall call, const std::shared_ptr<WebExchange>& exchange);
  void SignIn(const WebRequest& request, const std::shared_ptr<WebExchange>& exchange);
  void SendFile(const WebRequest& request, const std::shared_ptr<WebExchange>& exchange);

  const Options options_;
  ConnectGateway gateway_;
  MediaFiles media_;
};

// Images, sounds and videos of the folder of pools, for payloads that name a file.
//
// A file is read in parts of a megabyte, the next one when the client has taken the last, so that a large video costs
// as little memory as a small one and a slow client has time for each part. Players ask for ranges. Thread-safe.

class MediaFiles {
 public:
  explicit MediaFiles(std::string root);

  /// Answers with the file at a path relative to the folder, or the part of it that `range` ("bytes=FIRST-LAST") names.
  /// Each answer gets `headers` besides its own. Refuses what is not a media file inside the folder.
  void Send(const std::string& path, const std::string& range, WebHeaders headers,
            const std::shared_ptr<WebExchange>& exchange);

 private:
  struct Sending;
  void SendNext(const std::shared_ptr<Sending>& sending);

  const std::string root_;
  const std::shared_ptr<std::atomic<int>> open_;  ///< files that are being sent
  Executor reader_;                               // last: its thread uses all of the above
};

// The API as JSON over HTTP, described for tools: an OpenAPI 3.1 document made from the .proto files and their
// comments.
//
// A pure function; thread-safe.

/// `descriptors` is a serialised google.protobuf.FileDescriptorSet with comments. Streams of requests are left out:
/// they need gRPC. Empty if the descriptors cannot be read.
std::string OpenApiDocument(std::string_view descriptors, const std::string& version);

// The files of clients/web, compiled into the program by cmake/EmbedFiles.cmake. Immutable.

struct WebAsset {
  std::string_view path;  ///< such as "/app.js"
  std::string_view content;
};

std::span<const WebAsset> WebAssets();

}  // namespace fulcrum::pipeline
