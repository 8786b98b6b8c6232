// Calls of the API as JSON, by the Connect protocol (https://connectrpc.com/docs/protocol).
//
// A call is translated by reflection, for every method of fulcrum.v1 alike, and goes to the gRPC server of this process
// through its in-process channel: authentication, roles, limits and errors are those of gRPC. Unary calls have a JSON
// body; calls that return a stream have enveloped JSON messages in both directions. Streams of requests (AppendItems,
// Work) need gRPC. Thread-safe. Callbacks are called on threads of gRPC, once per call, and must not block.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace google::protobuf {
class MethodDescriptor;
}  // namespace google::protobuf

namespace fulcrum::pipeline {

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

}  // namespace fulcrum::pipeline
