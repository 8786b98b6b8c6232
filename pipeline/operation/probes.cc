#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <netdb.h>
#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <future>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "fulcrum/v1/server_service.grpc.pb.h"
#include "pipeline/operation/watchdog.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kProbeBytes = 4096;

struct Nothing {};

absl::StatusOr<Nothing> AskNothing(storage::Ledger& /*ledger*/, const Nothing& /*request*/) {
  return Nothing{};
}

std::future<absl::Status> AskWriter(Campaign& campaign) {
  const auto answer = std::make_shared<std::promise<absl::Status>>();
  campaign.store().Start(AskNothing, {}, [answer](const absl::StatusOr<Nothing>& result) {
    // A full queue is busy, not stuck: its thread was working while the queue was filled.
    answer->set_value(absl::IsResourceExhausted(result.status()) ? absl::OkStatus() : result.status());
  });
  return answer->get_future();
}

}  // namespace

Probe ListenerProbe(std::string address, int port, bool tls) {
  return {"listener", [address = std::move(address), port, tls](std::chrono::milliseconds timeout) {
            return ProbeListener(address, port, timeout, tls);
          }};
}

Probe CallProbe(const GrpcServer& server) {
  return {"calls", [channel = server.InProcessChannel()](std::chrono::milliseconds timeout) {
            grpc::ClientContext context;
            context.set_deadline(std::chrono::system_clock::now() + timeout);
            v1::GetVersionResponse response;
            const grpc::Status status = v1::ServerService::NewStub(channel)->GetVersion(&context, {}, &response);
            if (status.ok()) return absl::OkStatus();
            return absl::UnavailableError(absl::StrCat("a call to itself failed: ", status.error_message()));
          }};
}

Probe StoreProbe(const CampaignRegistry& campaigns) {
  return {"stores", [&campaigns](std::chrono::milliseconds timeout) -> absl::Status {
            const auto until = std::chrono::steady_clock::now() + timeout;
            std::vector<std::pair<std::string, std::future<absl::Status>>> answers;
            for (const auto& campaign : campaigns.List("", kAll)) {
              answers.emplace_back(campaign->name(), AskWriter(*campaign));
            }
            for (auto& [name, answer] : answers) {
              if (answer.wait_until(until) == std::future_status::timeout) {
                return absl::UnavailableError(absl::StrCat("the writing thread of campaign '", name, "' hangs"));
              }
              FULCRUM_RETURN_IF_ERROR(answer.get());
            }
            return absl::OkStatus();
          }};
}

absl::Status CheckStores(const CampaignRegistry& campaigns) {
  for (const auto& campaign : campaigns.List("", kAll)) FULCRUM_RETURN_IF_ERROR(campaign->store().health());
  return absl::OkStatus();
}

std::string DescribeProblems(const CampaignRegistry& campaigns) {
  const std::map<std::string, absl::Status> broken = campaigns.broken();
  const std::vector<std::string> quarantined = campaigns.quarantined();
  std::string text;
  if (!broken.empty()) absl::StrAppend(&text, broken.size(), " broken campaigns\n");
  for (const auto& [name, reason] : broken) {
    absl::StrAppend(&text, "campaign '", name, "' cannot be opened: ", reason.message(), "\n");
  }
  if (!quarantined.empty()) absl::StrAppend(&text, quarantined.size(), " quarantined campaigns\n");
  for (const std::string& name : quarantined) {
    absl::StrAppend(&text, "campaign '", name,
                    "' is quarantined: its round killed the process; `fulcrum campaign start ", name,
                    "` runs it again\n");
  }
  for (const auto& campaign : campaigns.List("", kAll)) {
    const std::string lost = campaign->lost_events();
    if (!lost.empty()) absl::StrAppend(&text, "campaign '", campaign->name(), "' lost events: ", lost, "\n");
  }
  return text;
}

absl::Status CheckDiskIsWritable(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/.writable-", getpid());
  const int descriptor = open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
  const std::array<char, kProbeBytes> bytes{};
  const bool written = descriptor >= 0 && write(descriptor, bytes.data(), bytes.size()) == kProbeBytes;
  const std::string reason = std::strerror(errno);
  if (descriptor >= 0) {
    close(descriptor);
    unlink(path.c_str());
  }
  if (written) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("the data folder '", folder, "' cannot be written: ", reason));
}

std::string DescribeInOneLine(const CampaignRegistry& campaigns) {
  std::size_t count = 0, running = 0, leases = 0;
  std::int64_t labels = 0;
  for (const auto& campaign : campaigns.List("", kAll)) {
    const auto status = campaign->store().status();
    ++count;
    running += campaign->offers_tasks() ? 1 : 0;
    leases += status->live_leases;
    labels += status->totals.labels;
  }
  std::string line =
      absl::StrCat(count, " campaigns, ", running, " of them running; ", leases, " leases, ", labels, " labels");
  if (const std::size_t quarantined = campaigns.quarantined().size(); quarantined > 0) {
    absl::StrAppend(&line, "; ", quarantined, " quarantined");
  }
  if (const std::size_t broken = campaigns.broken().size(); broken > 0) absl::StrAppend(&line, "; ", broken, " broken");
  return line;
}

namespace {

// The preface of HTTP/2 and an empty SETTINGS frame.
constexpr char kGreeting[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0";

/// A TLS ClientHello. Anything else would be logged as an error by the server at every probe.
std::string ClientHello() {
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  const std::unique_ptr<SSL, void (*)(SSL*)> connection(context ? SSL_new(context.get()) : nullptr, SSL_free);
  if (connection == nullptr) return "";
  // The connection owns both.
  SSL_set_bio(connection.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  SSL_connect(connection.get());
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(SSL_get_wbio(connection.get()), &bytes);
  return size > 0 ? std::string(bytes, static_cast<std::size_t>(size)) : "";
}

struct Destination {
  sockaddr_storage address = {};
  socklen_t size = 0;
};

Destination UnixDestination(const std::string& path) {
  Destination destination;
  auto& address = reinterpret_cast<sockaddr_un&>(destination.address);
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  destination.size = sizeof(address);
  return destination;
}

/// The loopback address of a listener on all addresses.
std::string ReachableHost(std::string host) {
  if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]")) host = host.substr(1, host.size() - 2);
  if (host == "0.0.0.0") return "127.0.0.1";
  if (host == "::") return "::1";
  return host;
}

absl::StatusOr<Destination> Resolve(const std::string& address, int port) {
  if (absl::StartsWith(address, "unix:")) return UnixDestination(address.substr(5));
  const std::string host = ReachableHost(address.substr(0, address.rfind(':')));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failure = getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found);
  if (failure != 0) return absl::UnavailableError(absl::StrCat("cannot resolve ", host, ": ", gai_strerror(failure)));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  Destination destination;
  std::memcpy(&destination.address, found->ai_addr, found->ai_addrlen);
  destination.size = found->ai_addrlen;
  return destination;
}

absl::Status NoAnswer(const std::string& address, const std::string& why) {
  return absl::UnavailableError(absl::StrCat("the listener on ", address, " does not answer: ", why));
}

}  // namespace

absl::Status ProbeListener(const std::string& address, int port, std::chrono::milliseconds timeout, bool tls) {
  FULCRUM_ASSIGN_OR_RETURN(const Destination destination, Resolve(address, port));
  const int descriptor = socket(destination.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return NoAnswer(address, std::strerror(errno));
  const auto closer = absl::MakeCleanup([descriptor] { close(descriptor); });
  const timeval limit = {.tv_sec = timeout.count() / 1000, .tv_usec = timeout.count() % 1000 * 1000};
  setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  if (connect(descriptor, reinterpret_cast<const sockaddr*>(&destination.address), destination.size) != 0) {
    return NoAnswer(address, std::strerror(errno));
  }
  const std::string greeting = tls ? ClientHello() : std::string(kGreeting, sizeof(kGreeting));
  if (send(descriptor, greeting.data(), greeting.size(), MSG_NOSIGNAL) < 0) {
    // A listener at its connection limit closes the connection at once, which is a response too.
    return errno == EPIPE || errno == ECONNRESET ? absl::OkStatus() : NoAnswer(address, std::strerror(errno));
  }
  char first = 0;
  if (recv(descriptor, &first, 1, 0) >= 0 || errno == ECONNRESET) return absl::OkStatus();
  return NoAnswer(address, std::strerror(errno));
}

}  // namespace fulcrum::pipeline
