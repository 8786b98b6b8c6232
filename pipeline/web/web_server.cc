#include "pipeline/web/web_server.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/server/transport/connection_listener.h"
#include "pipeline/web/web_connection.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

namespace net = boost::asio;
namespace ssl = net::ssl;
using Clock = std::chrono::steady_clock;

constexpr int kThreads = 2;
constexpr std::chrono::seconds kCertificateCheckTime{10};

/// Changes when one of the files does.
std::string StampOf(const WebServerOptions& options) {
  std::string stamp;
  for (const std::string& path : {options.tls_certificate, options.tls_key, options.tls_client_authorities}) {
    struct stat status {};
    if (!path.empty() && stat(path.c_str(), &status) == 0) {
      absl::StrAppend(&stamp, status.st_ino, ":", status.st_mtim.tv_sec, ":", status.st_mtim.tv_nsec, ";");
    }
  }
  return stamp;
}

absl::StatusOr<std::shared_ptr<ssl::context>> LoadCertificates(const WebServerOptions& options) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  context->set_options(ssl::context::default_workarounds | ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1);
  boost::system::error_code error;
  context->use_certificate_chain_file(options.tls_certificate, error);
  if (!error) context->use_private_key_file(options.tls_key, ssl::context::pem, error);
  if (!error && !options.tls_client_authorities.empty()) {
    context->load_verify_file(options.tls_client_authorities, error);
    if (!error) context->set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert, error);
  }
  if (!error) return context;
  return absl::InvalidArgumentError(absl::StrCat("the certificates cannot be used for HTTPS: ", error.message(),
                                                 "; check ", options.tls_certificate, " and ", options.tls_key));
}

}  // namespace

class WebServer::Running {
 public:
  Running(const WebServerOptions& options, Handler handler)
      : state_(std::make_shared<WebServerState>(options, std::move(handler), kThreads)),
        work_(state_->context.get_executor()) {}
  ~Running() {
    Stop();
    CloseAll(/*at_once=*/true);
    work_.reset();
    for (std::thread& thread : threads_) thread.join();
  }

  absl::Status Start() {
    const WebServerOptions& options = state_->options;
    if (!options.tls_certificate.empty()) {
      certificates_stamp_ = StampOf(options);
      FULCRUM_ASSIGN_OR_RETURN(certificates_, LoadCertificates(options));
    }
    FULCRUM_ASSIGN_OR_RETURN(listener_, ConnectionListener::Open(options.address, options.max_connections));
    for (int i = 0; i < kThreads; ++i) threads_.emplace_back([state = state_] { state->context.run(); });
    listener_->Start([this](int /*listening*/, int descriptor) { Accept(descriptor); });
    return absl::OkStatus();
  }

  int port() const { return listener_->port(); }

  void Stop() {
    if (state_->stopping.exchange(true)) return;
    if (listener_ != nullptr) listener_->Stop();
    CloseAll(/*at_once=*/false);
  }

 private:
  void Accept(int descriptor) {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size);
    net::ip::tcp::socket socket(net::make_strand(state_->context));
    socket.assign(address.ss_family == AF_INET6 ? net::ip::tcp::v6() : net::ip::tcp::v4(), descriptor);
    if (certificates_ != nullptr) RefreshCertificates();
    BeginWebConnection(state_, std::move(socket), certificates_.get());
  }

  void RefreshCertificates() {
    const Clock::time_point now = Clock::now();
    if (now - certificates_checked_ < kCertificateCheckTime) return;
    certificates_checked_ = now;
    const std::string stamp = StampOf(state_->options);
    if (stamp == certificates_stamp_) return;
    // A file that is only half written is looked at again later.
    if (auto loaded = LoadCertificates(state_->options); loaded.ok()) {
      certificates_ = *std::move(loaded);
      certificates_stamp_ = stamp;
    }
  }

  void CloseAll(bool at_once) {
    std::vector<std::function<void(bool)>> closers;
    {
      const std::scoped_lock lock(state_->mutex);
      for (const auto& [connection, close] : state_->connections) closers.push_back(close);
    }
    for (const auto& close : closers) close(at_once);
  }

  const std::shared_ptr<WebServerState> state_;
  net::executor_work_guard<net::io_context::executor_type> work_;
  std::vector<std::thread> threads_;
  // Used on the listener's thread after the start.
  std::shared_ptr<ssl::context> certificates_;
  std::string certificates_stamp_;
  Clock::time_point certificates_checked_ = {};
  std::unique_ptr<ConnectionListener> listener_;  // last: its thread uses all of the above
};

WebServer::WebServer(std::unique_ptr<Running> running) : running_(std::move(running)) {}

WebServer::~WebServer() = default;

int WebServer::port() const {
  return running_->port();
}

void WebServer::Stop() {
  running_->Stop();
}

absl::StatusOr<std::unique_ptr<WebServer>> WebServer::Start(const WebServerOptions& options, Handler handler) {
  auto running = std::make_unique<Running>(options, std::move(handler));
  FULCRUM_RETURN_IF_ERROR(running->Start());
  return std::unique_ptr<WebServer>(new WebServer(std::move(running)));
}

}  // namespace fulcrum::pipeline
