#include "pipeline/server/grpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/support/server_interceptor.h>
#include <sys/resource.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "pipeline/server/transport/connection_listener.h"
#include "pipeline/server/transport/frame_guard.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

/// Switches reflection on or off for one server. Merely linking gRPC's reflection library switches it on for every
/// server of the process, so "off" has to take it out again.
class ReflectionOption final : public grpc::ServerBuilderOption {
 public:
  explicit ReflectionOption(bool on) : on_(on) {}

  void UpdateArguments(grpc::ChannelArguments* /*arguments*/) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    auto reflection = std::make_unique<grpc::reflection::ProtoServerReflectionPlugin>();
    std::erase_if(*plugins, [&](const auto& plugin) { return plugin->name() == reflection->name(); });
    if (on_) plugins->push_back(std::move(reflection));
  }

 private:
  const bool on_;
};

/// Reports the end of one call.
class CallReporter final : public grpc::experimental::Interceptor {
 public:
  using Report = std::function<void(const CallReport&)>;

  CallReporter(const Report& report, const grpc::experimental::ServerRpcInfo& info)
      : report_(report),
        method_(info.method()),
        streaming_(info.type() != grpc::experimental::ServerRpcInfo::Type::UNARY) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(grpc::experimental::InterceptionHookPoints::PRE_SEND_STATUS)) {
      report_({.method = method_,
               .code = methods->GetSendStatus().error_code(),
               .streaming = streaming_,
               .taken = std::chrono::steady_clock::now() - begun_});
    }
    methods->Proceed();
  }

 private:
  const Report& report_;
  const char* const method_;
  const bool streaming_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

class CallReporterFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit CallReporterFactory(CallReporter::Report report) : report_(std::move(report)) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* info) override {
    return new CallReporter(report_, *info);
  }

 private:
  const CallReporter::Report report_;
};

/// Switches that libraries keep in globals which are not guarded.
void SetUpLibraries() {
  static std::once_flag once;
  std::call_once(once, [] {
    grpc::EnableDefaultHealthCheckService(true);
    // Debian's Abseil looks for cycles at every lock that gRPC takes, and ends the process if it finds one.
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  });
}

// For all that is no connection: databases, logs, models, pools.
constexpr std::size_t kOtherFiles = 256;
constexpr int kKeepaliveTime = 60'000;
constexpr int kKeepaliveTimeout = 20'000;

std::shared_ptr<grpc::ServerCredentials> CredentialsOf(const GrpcServerOptions& options) {
  if (options.tls_certificate.empty()) return grpc::InsecureServerCredentials();
  namespace tls = grpc::experimental;
  const bool ask_clients = !options.tls_client_authorities.empty();
  const auto files = std::make_shared<tls::FileWatcherCertificateProvider>(
      options.tls_key, options.tls_certificate, options.tls_client_authorities,
      static_cast<unsigned int>(options.tls_check_time.count()));
  tls::TlsServerCredentialsOptions credentials(files);
  credentials.watch_identity_key_cert_pairs();
  if (ask_clients) {
    credentials.watch_root_certs();
    credentials.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return tls::TlsServerCredentials(credentials);
}

void ApplyLimits(const GrpcServerOptions& options, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(options.max_message_bytes);
  builder.SetMaxSendMessageSize(options.max_message_bytes);
  builder.SetResourceQuota(grpc::ResourceQuota("fulcrum").Resize(options.max_buffered_bytes));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_concurrent_streams);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, static_cast<int>(options.handshake_timeout.count()));
  // A client whose machine has gone would hold its streams for ever.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTime);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeout);
}

std::size_t MostConnections(const GrpcServerOptions& options) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return options.max_connections;
  const std::size_t all = limit.rlim_cur;
  const std::size_t files = all - std::min(options.reserved_files, all / 2);
  return std::min(options.max_connections, files > 2 * kOtherFiles ? files - kOtherFiles : files / 2);
}

// Between two connections during a flood.
constexpr std::chrono::milliseconds kFloodPause{5};

/// gRPC serves the connections that our listener accepts. During a flood they come slowly: each may begin many calls
/// before it is closed, and those that are connected must be answered meanwhile.
void HandOn(grpc::experimental::ExternalConnectionAcceptor& acceptor, int listening, int connection) {
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
  if (FloodIsOn()) std::this_thread::sleep_for(kFloodPause);
  GuardConnection(connection);
  parameters.listener_fd = listening;
  parameters.fd = connection;
  acceptor.HandleNewConnection(&parameters);
}

}  // namespace

/// What must live until the last call is over, even if that is after the GrpcServer is gone.
struct GrpcServer::Running {
  std::chrono::milliseconds cancellation_time{0};
  std::vector<RegisteredService> services;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<ConnectionListener> listener;

  std::mutex mutex;
  std::condition_variable stopped_changed;
  std::thread shutdown;  ///< where gRPC waits for the last call, which it does without limit
  bool stopping = false;
  bool stopped = false;

  void ShutDown(std::chrono::milliseconds grace) {
    server->Shutdown(std::chrono::system_clock::now() + grace);
    const std::scoped_lock lock(mutex);
    stopped = true;
    stopped_changed.notify_all();
  }
};

GrpcServer::GrpcServer(std::shared_ptr<Running> running, int port) : running_(std::move(running)), port_(port) {}

GrpcServer::~GrpcServer() {
  if (Stop(std::chrono::milliseconds(0)).ok()) return;
  const std::scoped_lock lock(running_->mutex);
  // The call that never ended keeps what it uses: the thread holds on to it.
  if (running_->shutdown.joinable()) running_->shutdown.detach();
}

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(const GrpcServerOptions& options,
                                                              std::vector<RegisteredService> services) {
  if (services.empty()) return absl::InvalidArgumentError("a server needs at least one service to serve.");
  SetUpLibraries();
  auto running = std::make_shared<Running>();
  running->services = std::move(services);
  running->cancellation_time = options.cancellation_time;

  FULCRUM_ASSIGN_OR_RETURN(running->listener, ConnectionListener::Open(options.address, MostConnections(options)));
  grpc::ServerBuilder builder;
  running->acceptor = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, CredentialsOf(options));
  ApplyLimits(options, builder);
  builder.SetOption(std::make_unique<ReflectionOption>(options.reflection));
  for (const RegisteredService& registered : running->services) builder.RegisterService(registered.service.get());
  if (options.on_call) {
    std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> reporters;
    reporters.push_back(std::make_unique<CallReporterFactory>(options.on_call));
    builder.experimental().SetInterceptorCreators(std::move(reporters));
  }
  running->server = builder.BuildAndStart();
  if (running->server == nullptr) {
    return absl::UnavailableError("gRPC cannot serve; its own messages, on standard error, say why.");
  }
  std::unique_ptr<GrpcServer> server(new GrpcServer(running, running->listener->port()));
  for (const RegisteredService& registered : running->services) {
    running->server->GetHealthCheckService()->SetServingStatus(registered.name, true);
  }
  running->listener->Start([acceptor = running->acceptor.get()](int listening, int connection) {
    HandOn(*acceptor, listening, connection);
  });
  return server;
}

std::shared_ptr<grpc::Channel> GrpcServer::InProcessChannel() const {
  return running_->server->InProcessChannel({});
}

absl::Status GrpcServer::SetServing(const std::string& service, bool serving) {
  const bool known = service.empty() || std::any_of(running_->services.begin(), running_->services.end(),
                                                    [&](const auto& entry) { return entry.name == service; });
  if (!known) return absl::NotFoundError(absl::StrCat("this server has no service named '", service, "'."));
  running_->server->GetHealthCheckService()->SetServingStatus(service, serving);
  return absl::OkStatus();
}

absl::Status GrpcServer::Stop(std::chrono::milliseconds grace) {
  std::unique_lock lock(running_->mutex);
  if (!std::exchange(running_->stopping, true)) {
    // Final: after it nothing can be reported as serving again.
    running_->server->GetHealthCheckService()->Shutdown();
    running_->listener->Stop();
    running_->shutdown = std::thread([running = running_, grace] { running->ShutDown(grace); });
  }
  const std::chrono::milliseconds limit = grace + running_->cancellation_time;
  if (running_->stopped_changed.wait_for(lock, limit, [this] { return running_->stopped; })) {
    if (running_->shutdown.joinable()) running_->shutdown.join();
    return absl::OkStatus();
  }
  return absl::DeadlineExceededError(
      absl::StrCat("a call was still running ", limit.count(),
                   " ms after the server was asked to stop, and does not react to being cancelled; end the process."));
}

ServerService::ServerService(const std::string& version, const std::vector<LibraryVersion>& components) {
  answer_.set_version(version);
  for (const LibraryVersion& component : components) {
    v1::ComponentVersion* entry = answer_.add_components();
    entry->set_name(component.name);
    entry->set_version(component.version);
  }
}

grpc::ServerUnaryReactor* ServerService::GetVersion(grpc::CallbackServerContext* context,
                                                    const v1::GetVersionRequest* /*request*/,
                                                    v1::GetVersionResponse* response) {
  *response = answer_;
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace fulcrum::pipeline
