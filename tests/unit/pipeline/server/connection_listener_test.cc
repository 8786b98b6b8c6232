#include "pipeline/server/transport/connection_listener.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>

#include "tests/support/temporary_directory.h"

namespace fulcrum::pipeline {
namespace {

/// Keeps what it is given, as a server does.
class Taker {
 public:
  ~Taker() { CloseAll(); }
  ConnectionListener::Take take() {
    return [this](int, int connection) {
      const std::scoped_lock lock(mutex_);
      taken_.push_back(connection);
      changed_.notify_all();
    };
  }
  void WaitFor(std::size_t connections) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return taken_.size() >= connections; });
  }
  std::size_t size() {
    const std::scoped_lock lock(mutex_);
    return taken_.size();
  }
  void CloseAll() {
    const std::scoped_lock lock(mutex_);
    for (const int descriptor : taken_) close(descriptor);
    taken_.clear();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> taken_;
};

int Connect(int port) {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  EXPECT_EQ(connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  return descriptor;
}

/// Waits until the other side has closed it.
bool IsTurnedAway(int descriptor) {
  char byte = 0;
  return recv(descriptor, &byte, 1, 0) <= 0;
}

TEST(ConnectionListener, HandsConnectionsOn) {
  auto listener = ConnectionListener::Open("127.0.0.1:0", 10);
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_GT((*listener)->port(), 0);
  Taker taker;
  (*listener)->Start(taker.take());
  const int first = Connect((*listener)->port()), second = Connect((*listener)->port());
  taker.WaitFor(2);
  close(first);
  close(second);
}

TEST(ConnectionListener, TurnsAwayWhatIsTooManyAndTakesMoreWhenThereIsRoomAgain) {
  auto listener = ConnectionListener::Open("127.0.0.1:0", 2);
  ASSERT_TRUE(listener.ok()) << listener.status();
  Taker taker;
  (*listener)->Start(taker.take());
  const int port = (*listener)->port();
  const int first = Connect(port), second = Connect(port);
  taker.WaitFor(2);
  const int third = Connect(port);
  EXPECT_TRUE(IsTurnedAway(third));
  taker.CloseAll();
  const int fourth = Connect(port);
  taker.WaitFor(1);
  for (const int descriptor : {first, second, third, fourth}) close(descriptor);
}

TEST(ConnectionListener, ClientsThatHaveGoneAreNotHandedOn) {
  auto listener = ConnectionListener::Open("127.0.0.1:0", 1000);
  ASSERT_TRUE(listener.ok()) << listener.status();
  const int port = (*listener)->port();
  // More than are accepted at once, all of them before the listener begins.
  for (int i = 0; i < 200; ++i) close(Connect(port));
  const int waiting = Connect(port);
  Taker taker;
  (*listener)->Start(taker.take());
  taker.WaitFor(1);
  (*listener)->Stop();
  EXPECT_EQ(taker.size(), 1u);
  close(waiting);
}

TEST(ConnectionListener, APortHasOneListener) {
  auto first = ConnectionListener::Open("127.0.0.1:0", 10);
  ASSERT_TRUE(first.ok());
  const auto second = ConnectionListener::Open("127.0.0.1:" + std::to_string((*first)->port()), 10);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  (*first)->Stop();
  EXPECT_TRUE(ConnectionListener::Open("127.0.0.1:" + std::to_string((*first)->port()), 10).ok());
}

TEST(ConnectionListener, ListensOnAPathToo) {
  const testing::TemporaryDirectory folder;
  const std::string path = folder.File("socket");
  for (int again = 0; again < 2; ++again) {
    auto listener = ConnectionListener::Open("unix:" + path, 10);
    ASSERT_TRUE(listener.ok()) << listener.status();
    Taker taker;
    (*listener)->Start(taker.take());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    const int descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
    ASSERT_EQ(connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    taker.WaitFor(1);
    close(descriptor);
  }
}

TEST(ConnectionListener, SaysWhyItCannot) {
  for (const char* address : {"nonsense", "no-such-host.invalid:1", "127.0.0.1:notaport", "unix:"}) {
    EXPECT_EQ(ConnectionListener::Open(address, 10).status().code(), absl::StatusCode::kUnavailable) << address;
  }
}

}  // namespace
}  // namespace fulcrum::pipeline
