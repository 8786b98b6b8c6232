// A gRPC client with little overhead: HTTP/2 by nghttp2, with all calls of a connection on the thread that runs it.
//
// With the gRPC client library, 500 workers took a third of the processor time of a machine that they shared with the
// daemon; with this client they take a tenth. Implements the documented protocol (a call is a stream, a message has a
// prefix of five bytes, the status is a trailer) without TLS, compression and deadlines. Not thread-safe.
#pragma once

#include <google/protobuf/message_lite.h>
#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace fulcrum::benchmarks {

/// A call and its callbacks. Can be started again after it has ended. Must outlive the call.
class LeanCall {
 public:
  LeanCall() = default;
  virtual ~LeanCall() = default;
  LeanCall(const LeanCall&) = delete;
  LeanCall& operator=(const LeanCall&) = delete;

  /// Called with a message of the server, which is valid until the return.
  virtual void OnMessage(absl::string_view message) = 0;
  /// Called at the end of the call with the gRPC status code.
  virtual void OnEnd(int status) = 0;

 private:
  friend class LeanConnection;

  std::int32_t stream_ = 0;
  std::string outgoing_;
  std::size_t sent_ = 0;
  bool last_ = false;  // outgoing_ is the last message
  std::string incoming_;
  int status_ = 0;
};

class LeanConnection {
 public:
  /// Connects to a server on this machine. Exits if that fails or if the connection breaks.
  explicit LeanConnection(int port);
  ~LeanConnection();
  LeanConnection(const LeanConnection&) = delete;
  LeanConnection& operator=(const LeanConnection&) = delete;

  /// Starts a call of a method ("/package.Service/Method") with a single request.
  void Call(const char* method, const google::protobuf::MessageLite& request, LeanCall& call);
  /// Starts a call with a stream of requests.
  void Open(const char* method, LeanCall& call);
  void Send(const google::protobuf::MessageLite& message, LeanCall& call);
  void Cancel(LeanCall& call);

  /// Runs connections until `done`.
  static void Run(const std::vector<std::unique_ptr<LeanConnection>>& connections, const std::function<bool()>& done);

 private:
  struct Callbacks;

  void Begin(const char* method, LeanCall& call);
  void Receive();
  /// Sends as much pending data as the socket accepts; the rest stays pending.
  void Flush();

  int socket_ = -1;
  nghttp2_session* session_ = nullptr;
  std::string unsent_;
};

}  // namespace fulcrum::benchmarks
