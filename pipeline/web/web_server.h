// The HTTP/1.1 server of the API and the page: connections, TLS, limits and timeouts. What is answered is decided by a
// handler.
//
// All connections share two threads and are never waited for: a client that sends slowly, does not read or just stays
// costs memory within limits, and is closed after a time. Boost.Beast does the parsing. Owns its sockets and threads.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace fulcrum::pipeline {

struct WebRequest {
  std::string method = {};
  std::string path = {};                            ///< without the query, as it was sent
  std::map<std::string, std::string> headers = {};  ///< by name in lower case
  std::string body = {};
  std::string peer = {};  ///< address of the client
  bool tls = false;

  /// Empty if the request does not have it.
  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

using WebHeaders = std::vector<std::pair<std::string, std::string>>;

struct WebReply {
  int status = 200;
  std::string type = "application/json";
  std::string body = {};
  WebHeaders headers = {};
};

/// One request and what is answered to it. The methods can be called on any thread.
class WebExchange {
 public:
  virtual ~WebExchange() = default;
  /// Answers at once.
  virtual void Reply(WebReply reply) = 0;
  /// Answers with a stream: the head, then parts, then the end.
  virtual void BeginStream(WebReply head) = 0;
  virtual void SendPart(std::string part) = 0;
  virtual void EndStream(std::string last) = 0;
  /// `on_sent` is called whenever all parts so far are sent, also if that was before this call.
  virtual void OnSent(std::function<void()> on_sent) = 0;
  /// `on_gone` is called if the client closes the connection before it has the whole answer.
  virtual void OnGone(std::function<void()> on_gone) = 0;
};

struct WebServerOptions {
  std::string address = {};          ///< HOST:PORT; port 0 lets the system choose
  std::string tls_certificate = {};  ///< files; empty: no TLS
  std::string tls_key = {};
  std::string tls_client_authorities = {};  ///< empty: clients need no certificate
  std::size_t max_connections = 2'000;
  std::size_t max_body_bytes = std::size_t{6} << 20;  ///< 4 MiB, the limit of gRPC, in base64
  /// Of all requests together that are being received; requests below 64 KiB do not count.
  std::size_t max_buffered_bytes = std::size_t{96} << 20;
  /// Of all answers together that wait to be taken; answers below 64 KiB do not count.
  std::size_t max_unsent_bytes = std::size_t{96} << 20;
  std::chrono::seconds request_time{10};   ///< to send the header of the first request, and for the TLS handshake
  std::chrono::seconds idle_time{60};      ///< between requests
  std::chrono::seconds transfer_time{30};  ///< to send a whole body, or to take an answer or a part of a stream
};

class WebServer {
 public:
  /// Answers a request, now or later, on any thread. Must not block.
  using Handler = std::function<void(WebRequest request, std::shared_ptr<WebExchange> exchange)>;

  /// Unavailable if it cannot listen, InvalidArgument if the certificates cannot be used.
  static absl::StatusOr<std::unique_ptr<WebServer>> Start(const WebServerOptions& options, Handler handler);
  /// Closes all connections.
  ~WebServer();
  WebServer(const WebServer&) = delete;
  WebServer& operator=(const WebServer&) = delete;

  int port() const;
  /// Accepts no more connections, and closes each when its answer is sent.
  void Stop();

 private:
  class Running;
  explicit WebServer(std::unique_ptr<Running> running);

  const std::unique_ptr<Running> running_;
};

}  // namespace fulcrum::pipeline
