#include "tests/daemon/support/daemon_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"

namespace fulcrum::testing {
namespace {

bool IsFree(int port) {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  const bool bound = bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  close(descriptor);
  return bound;
}

/// Returns a free port below the ephemeral range: an ephemeral port could be taken by another connection while a killed
/// daemon restarts.
int LastingPort() {
  int first_given = 32768;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first_given;
  std::random_device random;
  std::uniform_int_distribution<int> ports(first_given / 2, first_given - 1);
  for (;;) {
    const int port = ports(random);
    if (IsFree(port)) return port;
  }
}

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Returns the environment of this process with additional variables.
std::vector<std::string> Variables(const DaemonProcess::Environment& environment) {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) variables.emplace_back(*entry);
  for (const auto& [name, value] : environment) variables.push_back(absl::StrCat(name, "=", value));
  return variables;
}

}  // namespace

DaemonProcess::DaemonProcess(std::vector<std::string> arguments, Environment environment)
    : arguments_(std::move(arguments)), environment_(std::move(environment)), port_(LastingPort()) {}

DaemonProcess::~DaemonProcess() {
  Kill();
}

void DaemonProcess::Spawn() {
  Launch();
  AwaitListening();
}

void DaemonProcess::Launch() {
  std::vector<std::string> words = {"fulcrum",   "serve",       "--listen", absl::StrCat("127.0.0.1:", port_),
                                    "--metrics", "127.0.0.1:0", "--log",    "json"};
  words.insert(words.end(), arguments_.begin(), arguments_.end());
  std::vector<std::string> variables = Variables(environment_);
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  const int failure =
      posix_spawn(&process_, FULCRUM_PROGRAM, &actions, nullptr, Pointers(words).data(), Pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  log_ = std::make_unique<LineReader>(ends[0]);
  ASSERT_EQ(failure, 0);
}

void DaemonProcess::AwaitListening() {
  const nlohmann::json listening = NextLogLine("listening");
  ASSERT_TRUE(listening.is_object()) << "the daemon did not start";
  metrics_port_ = listening.value("metrics_port", 0);
}

void DaemonProcess::Signal(int number) const {
  kill(process_, number);
}

int DaemonProcess::Wait() {
  int state = 0;
  waitpid(process_, &state, 0);
  process_ = -1;
  return WIFEXITED(state) ? WEXITSTATUS(state) : -WTERMSIG(state);
}

void DaemonProcess::Kill() {
  if (process_ <= 0) return;
  Signal(SIGKILL);
  Wait();
}

bool DaemonProcess::Lives() {
  return process_ > 0 && waitpid(process_, nullptr, WNOHANG) == 0;
}

nlohmann::json DaemonProcess::NextLogLine(const std::string& message) {
  while (const std::optional<std::string> line = log_->Next()) {
    nlohmann::json parsed = nlohmann::json::parse(*line, nullptr, /*allow_exceptions=*/false);
    EXPECT_FALSE(parsed.is_discarded()) << "not JSON: " << *line;
    if (parsed.is_object() && parsed.value("message", "") == message) return parsed;
  }
  return nullptr;
}

bool DaemonProcess::LimitFiles(std::size_t most) const {
  rlimit limit{};
  if (prlimit(process_, RLIMIT_NOFILE, nullptr, &limit) != 0) return false;
  limit.rlim_cur = most;
  return prlimit(process_, RLIMIT_NOFILE, &limit, nullptr) == 0;
}

std::size_t DaemonProcess::OpenFiles() const {
  const std::filesystem::directory_iterator files(absl::StrCat("/proc/", process_, "/fd"));
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

std::size_t DaemonProcess::ResidentBytes() const {
  std::ifstream statm(absl::StrCat("/proc/", process_, "/statm"));
  std::size_t all = 0, resident = 0;
  statm >> all >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::size_t DaemonProcess::PeakResidentBytes() const {
  std::ifstream status(absl::StrCat("/proc/", process_, "/status"));
  for (std::string line; std::getline(status, line);) {
    std::size_t kibibytes = 0;
    if (std::sscanf(line.c_str(), "VmHWM: %zu kB", &kibibytes) == 1) return kibibytes << 10;
  }
  return 0;
}

void DaemonProcess::ForgetPeak() const {
  std::ofstream(absl::StrCat("/proc/", process_, "/clear_refs")) << 5;
}

LineReader::LineReader(int descriptor) : descriptor_(descriptor), thread_([this, descriptor] { Read(descriptor); }) {}

void LineReader::Hold() {
  // Another open file of the same pipe: not to block here must not become not to block for the process.
  const int pipe = open(absl::StrCat("/proc/self/fd/", descriptor_).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(pipe, 0);
  {
    const std::scoped_lock lock(mutex_);
    hold_ = true;
  }
  const auto fill = [pipe] {
    while (write(pipe, "{}\n", 3) == 3) {
    }
  };
  fill();
  {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [this] { return holds_; });
  }
  fill();
  close(pipe);
}

void LineReader::Release() {
  const std::scoped_lock lock(mutex_);
  hold_ = false;
  arrived_.notify_all();
}

void LineReader::Read(int descriptor) {
  std::FILE* const stream = fdopen(descriptor, "r");
  char* line = nullptr;
  std::size_t capacity = 0;
  for (ssize_t length; (length = getline(&line, &capacity, stream)) > 0;) {
    std::unique_lock lock(mutex_);
    lines_.emplace_back(line, static_cast<std::size_t>(length));
    holds_ = hold_;
    arrived_.notify_all();
    arrived_.wait(lock, [this] { return !hold_; });
    holds_ = false;
  }
  std::free(line);
  std::fclose(stream);
  const std::scoped_lock lock(mutex_);
  over_ = true;
  arrived_.notify_one();
}

std::optional<std::string> LineReader::Next() {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [this] { return over_ || !lines_.empty(); });
  if (lines_.empty()) return std::nullopt;
  std::string line = std::move(lines_.front());
  lines_.pop_front();
  return line;
}

}  // namespace fulcrum::testing
