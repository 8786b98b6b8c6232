#include "tests/daemon/serve_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

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

}  // namespace fulcrum::testing
