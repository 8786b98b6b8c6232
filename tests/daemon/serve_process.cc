#include "tests/daemon/serve_process.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace fulcrum::testing {

ServeProcess::ServeProcess(const std::string& config, const Environment& environment) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  process_ = fork();
  if (process_ == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    execl(FULCRUM_PROGRAM, "fulcrum", "serve", "--config", config.c_str(), nullptr);
    _exit(127);
  }
  close(ends[1]);
  log_ = fdopen(ends[0], "r");
  listening_ = NextLogLine("listening");
  EXPECT_GT(port(), 0) << "the daemon did not start";
}

ServeProcess::~ServeProcess() {
  if (process_ > 0) {
    Signal(SIGKILL);
    Wait();
  }
  std::fclose(log_);
}

void ServeProcess::Signal(int number) const {
  kill(process_, number);
}

int ServeProcess::Wait() {
  int state = 0;
  waitpid(process_, &state, 0);
  process_ = -1;
  return WIFEXITED(state) ? WEXITSTATUS(state) : -WTERMSIG(state);
}

nlohmann::json ServeProcess::NextLogLine(const std::string& message) {
  char* line = nullptr;
  std::size_t capacity = 0;
  nlohmann::json found;
  while (found.is_null() && getline(&line, &capacity, log_) > 0) {
    const nlohmann::json parsed = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    EXPECT_FALSE(parsed.is_discarded()) << "not JSON: " << line;
    if (parsed.is_object() && parsed.value("message", "") == message) found = parsed;
  }
  std::free(line);
  return found;
}

std::string HttpGet(int port, const std::string& path, const std::string& method) {
  const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  std::string answer;
  if (connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    const std::string request = absl::StrCat(method, " ", path, " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_EQ(send(descriptor, request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
    char buffer[4096];
    for (ssize_t count; (count = recv(descriptor, buffer, sizeof(buffer), 0)) > 0;) {
      answer.append(buffer, static_cast<std::size_t>(count));
    }
  }
  close(descriptor);
  return answer;
}

}  // namespace fulcrum::testing
