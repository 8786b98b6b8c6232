#include "pipeline/operation/listener_knock.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

// The preface of HTTP/2 and an empty SETTINGS frame.
constexpr char kGreeting[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0";
constexpr std::size_t kGreetingBytes = sizeof(kGreeting);

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

/// Where somebody who listens on every address can be reached.
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

absl::Status KnockAtListener(const std::string& address, int port, std::chrono::milliseconds patience) {
  FULCRUM_ASSIGN_OR_RETURN(const Destination destination, Resolve(address, port));
  const int descriptor = socket(destination.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return NoAnswer(address, std::strerror(errno));
  const auto closer = absl::MakeCleanup([descriptor] { close(descriptor); });
  const timeval limit = {.tv_sec = patience.count() / 1000, .tv_usec = patience.count() % 1000 * 1000};
  setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  if (connect(descriptor, reinterpret_cast<const sockaddr*>(&destination.address), destination.size) != 0 ||
      send(descriptor, kGreeting, kGreetingBytes, MSG_NOSIGNAL) < 0) {
    return NoAnswer(address, std::strerror(errno));
  }
  char first = 0;
  if (recv(descriptor, &first, 1, 0) >= 0 || errno == ECONNRESET) return absl::OkStatus();
  return NoAnswer(address, std::strerror(errno));
}

}  // namespace fulcrum::pipeline
