#include "pipeline/server/transport/connection_listener.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

// The system takes its own limit (net.core.somaxconn) if that is less. A client that finds the queue full is dropped
// and tries again after 1, 3, 7, 15 and 31 seconds.
constexpr int kBacklog = 65'535;
constexpr std::size_t kMostAtOnce = 64;
constexpr int kPauseMilliseconds = 50;
constexpr char kUnixPrefix[] = "unix:";

absl::Status CannotListen(const std::string& address, const std::string& why) {
  return absl::UnavailableError(absl::StrCat("cannot listen on ", address, " (", why,
                                             "): check that the address is one of this machine's and that no other "
                                             "process has the port (ss -ltnp shows which)."));
}

struct HostAndPort {
  std::string host;
  std::string port;
};

absl::StatusOr<HostAndPort> Split(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos) return CannotListen(address, "it has no port");
  absl::string_view host = absl::string_view(address).substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  return HostAndPort{std::string(host), address.substr(colon + 1)};
}

void SetPort(sockaddr* address, int port) {
  const auto number = htons(static_cast<std::uint16_t>(port));
  if (address->sa_family == AF_INET) reinterpret_cast<sockaddr_in*>(address)->sin_port = number;
  if (address->sa_family == AF_INET6) reinterpret_cast<sockaddr_in6*>(address)->sin6_port = number;
}

int PortOf(int descriptor) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
}

/// A listening socket, or -1 with errno.
int Listen(const sockaddr* address, socklen_t size) {
  const int descriptor = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return -1;
  const int yes = 1;
  setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  // Connections have it from the socket that they are accepted on.
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  if (bind(descriptor, address, size) == 0 && listen(descriptor, kBacklog) == 0) return descriptor;
  const int why = errno;
  close(descriptor);
  errno = why;
  return -1;
}

bool IsOutOfResources(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

/// 0 if the descriptor is closed, which another thread may do at any moment.
std::uint64_t SocketNumber(int descriptor) {
  struct statx status {};
  return statx(descriptor, "", AT_EMPTY_PATH, STATX_INO, &status) == 0 ? status.stx_ino : 0;
}

int OpenReserve() {
  return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

}  // namespace

ConnectionListener::ConnectionListener(std::string address, std::size_t most_connections)
    : address_(std::move(address)), most_connections_(most_connections) {}

absl::StatusOr<std::unique_ptr<ConnectionListener>> ConnectionListener::Open(const std::string& address,
                                                                             std::size_t most_connections) {
  std::unique_ptr<ConnectionListener> listener(new ConnectionListener(address, most_connections));
  listener->stop_event_ = eventfd(0, EFD_CLOEXEC);
  listener->reserve_ = OpenReserve();
  if (listener->stop_event_ < 0 || listener->reserve_ < 0) return CannotListen(address, std::strerror(errno));
  absl::string_view path = address;
  const bool is_path = absl::ConsumePrefix(&path, kUnixPrefix);
  FULCRUM_RETURN_IF_ERROR(is_path ? listener->ListenOnPath(std::string(path)) : listener->ListenOnHost());
  return listener;
}

absl::Status ConnectionListener::ListenOnPath(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) return CannotListen(address_, "the path is too long");
  path.copy(address.sun_path, path.size());
  // Left over from a server that was killed; a file that is not a socket is kept.
  struct stat status {};
  if (stat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode)) unlink(path.c_str());
  const int descriptor = Listen(reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  if (descriptor < 0) return CannotListen(address_, std::strerror(errno));
  listening_.push_back(descriptor);
  return absl::OkStatus();
}

absl::Status ConnectionListener::ListenOnHost() {
  FULCRUM_ASSIGN_OR_RETURN(const HostAndPort parts, Split(address_));
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(parts.host.empty() ? nullptr : parts.host.c_str(), parts.port.c_str(), &hints, &found);
  if (error != 0) return CannotListen(address_, gai_strerror(error));
  const auto cleanup = absl::MakeCleanup([found] { freeaddrinfo(found); });
  int why = 0;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    // A name with several addresses has one port.
    if (port_ != 0) SetPort(entry->ai_addr, port_);
    const int descriptor = Listen(entry->ai_addr, entry->ai_addrlen);
    if (descriptor < 0) {
      why = errno;
      continue;
    }
    listening_.push_back(descriptor);
    port_ = PortOf(descriptor);
  }
  return listening_.empty() ? CannotListen(address_, std::strerror(why)) : absl::OkStatus();
}

ConnectionListener::~ConnectionListener() {
  Stop();
  if (reserve_ >= 0) close(reserve_);
  if (stop_event_ >= 0) close(stop_event_);
}

void ConnectionListener::Start(Take take) {
  take_ = std::move(take);
  thread_ = std::thread([this] { Loop(); });
}

void ConnectionListener::Stop() {
  const std::uint64_t one = 1;
  if (thread_.joinable() && write(stop_event_, &one, sizeof(one)) == sizeof(one)) thread_.join();
  for (const int descriptor : std::exchange(listening_, {})) close(descriptor);
}

bool ConnectionListener::Pause() const {
  pollfd event{.fd = stop_event_, .events = POLLIN, .revents = 0};
  return poll(&event, 1, kPauseMilliseconds) <= 0;
}

void ConnectionListener::Loop() {
  std::vector<pollfd> events;
  for (const int descriptor : listening_) events.push_back({.fd = descriptor, .events = POLLIN, .revents = 0});
  events.push_back({.fd = stop_event_, .events = POLLIN, .revents = 0});
  for (;;) {
    if (poll(events.data(), events.size(), -1) < 0 && errno != EINTR && !Pause()) return;
    if (events.back().revents != 0) return;
    for (const pollfd& event : events) {
      if (event.revents != 0) Accept(event.fd);
    }
  }
}

void ConnectionListener::Accept(int listening) {
  std::vector<pollfd> accepted;
  while (accepted.size() < kMostAtOnce) {
    const int connection = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (connection >= 0) {
      accepted.push_back({.fd = connection, .events = POLLRDHUP, .revents = 0});
    } else if (errno != ECONNABORTED) {
      if (IsOutOfResources(errno)) TurnOneAway(listening);
      break;
    }
  }
  if (!accepted.empty()) poll(accepted.data(), accepted.size(), 0);
  for (const pollfd& connection : accepted) {
    // A client that has closed its side waits for nothing. To serve it would take a hundred times as long as to accept
    // it, and those behind it in the queue would wait.
    if (connection.revents != 0 || !HasRoom()) {
      close(connection.fd);
      continue;
    }
    handed_on_[connection.fd] = SocketNumber(connection.fd);
    take_(listening, connection.fd);
  }
}

void ConnectionListener::TurnOneAway(int listening) {
  if (reserve_ >= 0) close(reserve_);
  const int connection = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
  if (connection >= 0) close(connection);
  reserve_ = OpenReserve();
  // If even that did not help, connections in the queue wait a little.
  if (connection < 0) Pause();
}

bool ConnectionListener::HasRoom() {
  if (handed_on_.size() < most_connections_) return true;
  std::erase_if(handed_on_, [](const auto& entry) { return SocketNumber(entry.first) != entry.second; });
  return handed_on_.size() < most_connections_;
}

}  // namespace fulcrum::pipeline
