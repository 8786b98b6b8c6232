// What the web server answers: the page at "/", the API as JSON, sessions, and media files of the pool folder.
//
//   GET    /, /app.js, ...                   the page; compiled into the program
//   GET    /openapi.json                     the API for tools, made from the .proto files
//   POST   /fulcrum.v1.SERVICE/METHOD        a call, see ConnectGateway
//   POST   /session  {"token": "..."}        signs in: the token is kept in a cookie that scripts cannot read
//   DELETE /session                          signs out
//   GET    /files/PATH                       an image, a sound or a video inside the folder of pools
//
// A browser may use the session only from the page itself: a POST of another origin is refused, and a server without
// tokens answers only under a loopback name, so that no other web site can reach it through a browser. Thread-safe.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/server/executor.h"
#include "pipeline/web/web_server.h"

namespace google::protobuf {
class MethodDescriptor;
}  // namespace google::protobuf

namespace fulcrum::pipeline {

// Calls of the API as JSON, by the Connect protocol (https://connectrpc.com/docs/protocol).
//
// A call is translated by reflection, for every method of fulcrum.v1 alike, and goes to the gRPC server of this process
// through its in-process channel: authentication, roles, limits and errors are those of gRPC. Unary calls have a JSON
// body; calls that return a stream have enveloped JSON messages in both directions. Streams of requests (AppendItems,
// Work) need gRPC. Thread-safe. Callbacks are called on threads of gRPC, once per call, and must not block.

/// A call as it arrived over HTTP.
struct GatewayCall {
  const google::protobuf::MethodDescriptor* method = nullptr;
  std::string body = {};
  std::string authorization = {};  ///< the header of the same name; may be empty
  std::string peer = {};           ///< address of the client, for the log
  std::optional<std::chrono::milliseconds> timeout = {};
};

/// The status code of HTTP for an error, and the error as JSON.
int HttpStatusOf(const absl::Status& status);
std::string ErrorJson(const absl::Status& status);

/// A message of a stream with its envelope: a byte of flags, four bytes of length, and JSON.
std::string Envelope(const std::string& json, bool last);
/// What ends a stream: its status, as the last message.
std::string EndOfStream(const absl::Status& status);

/// A call that is under way. Dropping it does not cancel it.
class RunningCall {
 public:
  virtual ~RunningCall() = default;
  /// The client has gone.
  virtual void Cancel() = 0;
  /// For streams: reads one message after the other. Call it once per message that was handed on.
  virtual void ReadNext() {}
};

class ConnectGateway {
 public:
  explicit ConnectGateway(const std::shared_ptr<grpc::Channel>& channel) : stub_(channel) {}

  /// The method that a path such as "/fulcrum.v1.CampaignService/GetCampaign" names; null if there is none.
  static const google::protobuf::MethodDescriptor* Find(const std::string& path);
  /// Whether the method can be called by RunUnary or RunStream. Unimplemented for streams of requests.
  static absl::Status CheckCallable(const google::protobuf::MethodDescriptor& method);

  /// `done` gets the response as JSON, or the error.
  using UnaryDone = std::function<void(absl::StatusOr<std::string> json)>;
  std::shared_ptr<RunningCall> RunUnary(GatewayCall call, UnaryDone done);

  /// `on_message` gets an enveloped message, and the next one only after ReadNext. `on_end` gets the status.
  struct StreamHandlers {
    std::function<void(std::string envelope)> on_message = {};
    std::function<void(const absl::Status& status)> on_end = {};
  };
  std::shared_ptr<RunningCall> RunStream(GatewayCall call, StreamHandlers handlers);

 private:
  grpc::GenericStub stub_;
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
