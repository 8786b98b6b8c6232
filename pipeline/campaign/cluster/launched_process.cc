#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "pipeline/campaign/cluster/cluster_round_job.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::size_t kMostTailBytes = std::size_t{16} << 10;
// How soon an end is noticed of a process that prints nothing.
constexpr std::chrono::milliseconds kOutputWait{50};

/// In the new process, where only calls that are safe after a fork of a process with threads are allowed.
[[noreturn]] void Become(char* const* arguments, int output, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  // The daemon reads its signals from a descriptor, and ignores those of closed pipes.
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  close_range(STDERR_FILENO + 1, ~0U, 0);
  execvp(arguments[0], arguments);
  const char* const why = strerrordesc_np(errno);
  for (const char* const text : {"cannot run '", static_cast<const char*>(arguments[0]), "': ", why, "\n"}) {
    if (text != nullptr && write(STDERR_FILENO, text, std::strlen(text)) < 0) break;
  }
  _exit(127);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LaunchedProcess>> LaunchedProcess::Start(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot make a pipe: ", std::strerror(errno)));
  }
  const pid_t parent = getpid();
  const pid_t process = fork();
  if (process == 0) {
    fcntl(ends[1], F_SETFL, 0);
    Become(arguments.data(), ends[1], parent);
  }
  const int error = errno;
  close(ends[1]);
  if (process < 0) {
    close(ends[0]);
    return absl::UnavailableError(absl::StrCat("cannot start a process: ", std::strerror(error)));
  }
  // Also here, so that a signal to the group does not come too early.
  setpgid(process, process);
  return std::unique_ptr<LaunchedProcess>(new LaunchedProcess(process, ends[0]));
}

void LaunchedProcess::ReadOutput(std::chrono::milliseconds time) {
  pollfd readable{.fd = output_, .events = POLLIN, .revents = 0};
  if (poll(&readable, 1, static_cast<int>(time.count())) <= 0 || output_ < 0) return;
  std::array<char, 4096> part{};
  ssize_t got = 0;
  // Bounded, for a process that prints faster than it can be read.
  for (int i = 0; i < 64 && (got = read(output_, part.data(), part.size())) > 0; ++i) {
    tail_.append(part.data(), static_cast<std::size_t>(got));
    if (tail_.size() > 2 * kMostTailBytes) tail_.erase(0, tail_.size() - kMostTailBytes);
  }
  if (got == 0) close(std::exchange(output_, -1));
}

bool LaunchedProcess::HasEnded() {
  if (ended_) return true;
  siginfo_t info{};
  // It stays a zombie at first, so that its group keeps its number.
  if (waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
    return false;
  }
  kill(-process_, SIGKILL);
  waitpid(process_, &wait_status_, 0);
  ended_ = true;
  ReadOutput(std::chrono::milliseconds(0));
  if (output_ >= 0) close(std::exchange(output_, -1));
  return true;
}

bool LaunchedProcess::WaitFor(std::chrono::milliseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  while (!HasEnded()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    ReadOutput(std::min(left, kOutputWait));
  }
  return true;
}

void LaunchedProcess::Stop() {
  if (HasEnded()) return;
  kill(-process_, SIGTERM);
  if (WaitFor(kTimeToEnd)) return;
  kill(-process_, SIGKILL);
  waitpid(process_, &wait_status_, 0);
  ended_ = true;
  if (output_ >= 0) close(std::exchange(output_, -1));
}

std::string LaunchedProcess::DescribeEnd() const {
  if (WIFSIGNALED(wait_status_)) {
    const int signal = WTERMSIG(wait_status_);
    return absl::StrCat("was ended by signal ", signal, " (", strsignal(signal), ")");
  }
  return absl::StrCat("ended with exit code ", WEXITSTATUS(wait_status_));
}

}  // namespace fulcrum::pipeline
