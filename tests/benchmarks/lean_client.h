// A gRPC client that costs little: HTTP/2 by nghttp2, all calls of a connection on the thread that runs it.
//
// With gRPC's own client, 500 workers took a third of the processor time of a machine that they shared with the daemon;
// with this one a tenth. Speaks the protocol as documented (a call is a stream, a message has a prefix
// of five bytes, the status is a trailer) without TLS, compression and deadlines. Used by one thread.
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

/// A call, and who waits for what it brings. May be begun again once it has ended. Must outlive its end.
class LeanCall {
 public:
  LeanCall() = default;
  virtual ~LeanCall() = default;
  LeanCall(const LeanCall&) = delete;
  LeanCall& operator=(const LeanCall&) = delete;

  /// A message of the server's, which lives until the return.
  virtual void OnMessage(absl::string_view message) = 0;
  /// The end, with gRPC's status code.
  virtual void OnEnd(int status) = 0;

 private:
  friend class LeanConnection;

  std::int32_t stream_ = 0;
  std::string outgoing_;
  std::size_t sent_ = 0;
  bool last_ = false;  // nothing follows what is in outgoing_
  std::string incoming_;
  int status_ = 0;
};

class LeanConnection {
 public:
  /// To a server on this machine. Ends the program where there is none, and later where the connection breaks.
  explicit LeanConnection(int port);
  ~LeanConnection();
  LeanConnection(const LeanConnection&) = delete;
  LeanConnection& operator=(const LeanConnection&) = delete;

  /// Begins a call of a method ("/package.Service/Method") that has a single request.
  void Call(const char* method, const google::protobuf::MessageLite& request, LeanCall& call);
  /// Begins a call that has a stream of them.
  void Open(const char* method, LeanCall& call);
  void Send(const google::protobuf::MessageLite& message, LeanCall& call);
  void Cancel(LeanCall& call);

  /// Serves connections until `done`.
  static void Run(const std::vector<std::unique_ptr<LeanConnection>>& connections, const std::function<bool()>& done);

 private:
  struct Callbacks;

  void Begin(const char* method, LeanCall& call);
  void Receive();
  /// Sends what the system takes of what there is to send; the rest waits.
  void Flush();

  int socket_ = -1;
  nghttp2_session* session_ = nullptr;
  std::string unsent_;
};

}  // namespace fulcrum::benchmarks
