#include "tests/daemon/daemon_process.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace fulcrum::testing {

int FreePort() {
  const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(descriptor, reinterpret_cast<sockaddr*>(&address), size), 0);
  getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size);
  close(descriptor);
  return ntohs(address.sin_port);
}

DaemonProcess::DaemonProcess(std::vector<std::string> arguments, std::string log)
    : port_(FreePort()), arguments_(std::move(arguments)), log_(std::move(log)) {}

DaemonProcess::~DaemonProcess() {
  Kill();
}

void DaemonProcess::Spawn() {
  // Before the fork: afterwards only few functions may be called.
  std::vector<std::string> words = {"fulcrum", "serve",    "--metrics",
                                    "off",     "--listen", absl::StrCat("127.0.0.1:", port_)};
  words.insert(words.end(), arguments_.begin(), arguments_.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  process_ = fork();
  ASSERT_GE(process_, 0);
  if (process_ > 0) return;
  if (std::freopen(log_.c_str(), "a", stderr) == nullptr) _exit(1);
  execv(FULCRUM_PROGRAM, argv.data());
  _exit(127);
}

void DaemonProcess::Kill() {
  if (process_ <= 0) return;
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
  process_ = -1;
}

bool DaemonProcess::Lives() {
  return process_ > 0 && waitpid(process_, nullptr, WNOHANG) == 0;
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

}  // namespace fulcrum::testing
