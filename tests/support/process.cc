#include "tests/support/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>

namespace fulcrum::testing {
namespace {

struct Pipe {
  Pipe() {
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("cannot make a pipe");
  }
  int ends[2];
};

[[noreturn]] void Become(const std::vector<std::string>& arguments, const ProcessOptions& options, const Pipe& output,
                         const Pipe& errors) {
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(output.ends[1], STDOUT_FILENO);
  dup2(errors.ends[1], STDERR_FILENO);
  if (options.memory_limit > 0) {
    const rlimit limit{options.memory_limit, options.memory_limit};
    setrlimit(RLIMIT_AS, &limit);
  }
  if (options.cpu_seconds > 0) {
    const rlimit limit{options.cpu_seconds, options.cpu_seconds + 1};
    setrlimit(RLIMIT_CPU, &limit);
  }
  std::vector<char*> words;
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  _exit(127);
}

// Reads both pipes at once: a program that fills one of them while this process reads the other would block.
void ReadBoth(const Pipe& output, const Pipe& errors, ProcessResult& result) {
  pollfd watched[2] = {{output.ends[0], POLLIN, 0}, {errors.ends[0], POLLIN, 0}};
  std::string* texts[2] = {&result.standard_output, &result.standard_error};
  for (int open_ends = 2; open_ends > 0;) {
    if (poll(watched, 2, -1) < 0 && errno != EINTR) throw std::runtime_error("cannot wait for a pipe");
    for (int i = 0; i < 2; ++i) {
      if (watched[i].fd < 0 || watched[i].revents == 0) continue;
      char buffer[1 << 16];
      const ssize_t count = read(watched[i].fd, buffer, sizeof(buffer));
      if (count > 0) {
        texts[i]->append(buffer, static_cast<std::size_t>(count));
      } else if (count == 0) {
        close(watched[i].fd);
        watched[i].fd = -1;
        --open_ends;
      }
    }
  }
}

}  // namespace

ProcessResult RunProcess(const std::vector<std::string>& arguments, const ProcessOptions& options) {
  const Pipe output, errors;
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("cannot start a process");
  if (child == 0) Become(arguments, options, output, errors);
  close(output.ends[1]);
  close(errors.ends[1]);
  ProcessResult result;
  ReadBoth(output, errors, result);
  int status = 0;
  rusage usage{};
  while (wait4(child, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  for (const timeval& time : {usage.ru_utime, usage.ru_stime}) {
    result.cpu_seconds += static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  }
  result.peak_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

}  // namespace fulcrum::testing
