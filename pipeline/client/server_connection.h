// The way to a server: its address, TLS, and the token that goes with every call.
//
// Thread-safe after construction; shared by what makes calls over it. Connecting happens with the first call.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace grpc {
class Channel;
class ClientContext;
}  // namespace grpc

namespace fulcrum::pipeline {

struct ConnectionOptions {
  std::string server = "127.0.0.1:7410";
  std::string token_file = {};  ///< empty: FULCRUM_TOKEN, where it is set
  std::string tls_ca = {};      ///< certificates that the server's must be signed by; empty: no TLS
  std::string tls_cert = {};    ///< the client's own, for mutual TLS
  std::string tls_key = {};
};

class ServerConnection {
 public:
  /// Reads token and certificates. InvalidArgument if they do not fit together, or if a token would leave the
  /// machine unencrypted.
  static absl::StatusOr<std::shared_ptr<const ServerConnection>> Open(const ConnectionOptions& options);

  const std::string& server() const { return server_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  /// Puts the token into a call's metadata and gives it a deadline; none for zero.
  void Prepare(std::chrono::milliseconds deadline, grpc::ClientContext& context) const;

 private:
  ServerConnection(std::string server, std::string token, std::shared_ptr<grpc::Channel> channel);

  const std::string server_;
  const std::string token_;
  const std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace fulcrum::pipeline
