#include "tests/support/http_get.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace fulcrum::testing {

std::string HttpGet(int port, const std::string& path, const std::string& method) {
  const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  std::string answer;
  if (connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    const std::string request = absl::StrCat(method, " ", path, " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    (void)send(descriptor, request.data(), request.size(), MSG_NOSIGNAL);
    char buffer[4096];
    for (ssize_t count; (count = recv(descriptor, buffer, sizeof(buffer), 0)) > 0;) {
      answer.append(buffer, static_cast<std::size_t>(count));
    }
  }
  close(descriptor);
  return answer;
}

}  // namespace fulcrum::testing
