// A gRPC server with the limits, health checks and orderly end that every Fulcrum server has.
//
// Knows nothing of what it serves: services are given to it and kept alive by it. Methods are thread-safe, except
// that the destructor must be the last call. The standard health service (grpc.health.v1.Health) is always there;
// reflection by an option.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fulcrum/v1/server_service.grpc.pb.h"
#include "pipeline/text/version.h"

namespace grpc {
class Channel;
class Service;
}  // namespace grpc

namespace fulcrum::pipeline {

/// A call that ended.
struct CallReport {
  const char* method = "";  ///< "/fulcrum.v1.CampaignService/GetCampaign"; lives as long as the server
  int code = 0;             ///< a grpc::StatusCode
  bool streaming = false;
  std::chrono::nanoseconds taken{0};
};

struct GrpcServerOptions {
  /// host:port, [ipv6]:port or unix:path. Port 0 lets the system choose.
  std::string address = "127.0.0.1:0";
  /// Lets clients list services and fetch their descriptors; off, because it tells strangers what there is.
  bool reflection = false;
  int max_message_bytes = 4 * 1024 * 1024;
  /// Of all connections together, for what has arrived and is not read yet. gRPC looks at the size of a message only
  /// when it has all of it, so without this a message could be as large as the memory.
  std::size_t max_buffered_bytes = std::size_t{256} << 20;
  /// On one connection; more wait. gRPC's own default is no limit.
  int max_concurrent_streams = 100;
  /// More are turned away; fewer if the process may not have that many files.
  std::size_t max_connections = 10'000;
  /// Files that others in the process open besides a few hundred, such as the connections of the page.
  std::size_t reserved_files = 0;
  /// A connection that has not introduced itself by then is closed, so half-open ones do not pile up.
  std::chrono::milliseconds handshake_timeout{10'000};
  /// Files with the server's certificate chain and key; both or none. Read again when they change.
  std::string tls_certificate = {};
  std::string tls_key = {};
  /// File with the authorities whose certificates clients must show; empty: clients need none.
  std::string tls_client_authorities = {};
  /// How often those files are looked at.
  std::chrono::seconds tls_check_time{10};
  /// How long a call gets to end after Stop has cancelled it.
  std::chrono::milliseconds cancellation_time{2'000};
  /// Called at the end of every call, on threads of gRPC. It must not block.
  std::function<void(const CallReport&)> on_call = {};
};

/// A service and the full name under which clients ask for its health, such as "fulcrum.v1.ServerService".
struct RegisteredService {
  std::string name;
  std::shared_ptr<grpc::Service> service;
};

class GrpcServer {
 public:
  /// Listens, and reports every service as SERVING.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(const GrpcServerOptions& options,
                                                           std::vector<RegisteredService> services);
  /// Stops at once if Stop was not called.
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  /// The port it listens on; meaningless for a unix socket.
  int port() const { return port_; }
  /// A way to call the server past the network. Calls fail once it is stopped.
  std::shared_ptr<grpc::Channel> InProcessChannel() const;

  /// What the health service answers for one service, or with an empty name for the server as a whole.
  absl::Status SetServing(const std::string& service, bool serving);

  /// Reports NOT_SERVING, takes no more calls, and gives running ones `grace` to finish; then they are cancelled.
  /// DEADLINE_EXCEEDED when a handler has not ended `cancellation_time` after that: the server then lives on in the
  /// background, because gRPC cannot take a call back, and the process should end. Calling it again waits again.
  absl::Status Stop(std::chrono::milliseconds grace);

 private:
  struct Running;

  GrpcServer(std::shared_ptr<Running> running, int port);

  const std::shared_ptr<Running> running_;
  const int port_;
};

// fulcrum.v1.ServerService: what the running server is.
//
// Thread-safe: the answer is made once, in the constructor.

class ServerService final : public v1::ServerService::CallbackService {
 public:
  ServerService(const std::string& version, const std::vector<LibraryVersion>& components);

  grpc::ServerUnaryReactor* GetVersion(grpc::CallbackServerContext* context, const v1::GetVersionRequest* request,
                                       v1::GetVersionResponse* response) override;

 private:
  v1::GetVersionResponse answer_;
};

}  // namespace fulcrum::pipeline
