#include "tests/daemon/support/raw_connections.h"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

namespace fulcrum::testing {
namespace {

constexpr std::size_t kOtherFiles = 200;

}  // namespace

std::size_t RawConnections::MostPossible(std::size_t wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur > kOtherFiles ? std::min<std::size_t>(wanted, limit.rlim_cur - kOtherFiles) : 0;
}

void RawConnections::Open(const std::string& greeting) {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port_));
  const bool connected = connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  if (!connected) {
    close(descriptor);
    return;
  }
  descriptors_.push_back(descriptor);
  if (!greeting.empty()) static_cast<void>(send(descriptor, greeting.data(), greeting.size(), MSG_NOSIGNAL));
}

bool RawConnections::Send(std::size_t index, const std::string& bytes) const {
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t count = send(descriptors_[index], bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count < 0) return false;
    sent += static_cast<std::size_t>(count);
  }
  return true;
}

std::string RawConnections::ReadAll(std::size_t index) const {
  std::string all;
  char buffer[4096];
  for (ssize_t count; (count = recv(descriptors_[index], buffer, sizeof(buffer), 0)) > 0;) {
    all.append(buffer, static_cast<std::size_t>(count));
  }
  return all;
}

void RawConnections::CloseAll() {
  for (const int descriptor : descriptors_) close(descriptor);
  descriptors_.clear();
}

}  // namespace fulcrum::testing
