// Accepts connections and hands them on: the part of a server that must never give up.
//
// gRPC 1.51 stops accepting for good once the process has run out of file descriptors (CVE-2023-4785) and does not
// limit connections. So this one listens in its place: it turns connections away when there are too many, lets go of
// one descriptor that it keeps in reserve when there are none left, and accepts again as soon as it can. Thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace fulcrum::pipeline {

class ConnectionListener {
 public:
  /// Takes over a connection that came in on a listening socket.
  using Take = std::function<void(int listening, int connection)>;

  /// Listens on host:port, [ipv6]:port or unix:path; port 0 lets the system choose. Unavailable if it cannot.
  static absl::StatusOr<std::unique_ptr<ConnectionListener>> Open(const std::string& address,
                                                                  std::size_t most_connections);
  /// Stops, where that was not done.
  ~ConnectionListener();
  ConnectionListener(const ConnectionListener&) = delete;
  ConnectionListener& operator=(const ConnectionListener&) = delete;

  /// Begins to accept; `take` is called on a thread of its own.
  void Start(Take take);
  /// Accepts no more; connections that are there stay.
  void Stop();

  /// 0 for a unix socket.
  int port() const { return port_; }

 private:
  ConnectionListener(std::string address, std::size_t most_connections);

  absl::Status ListenOnPath(const std::string& path);
  absl::Status ListenOnHost();
  void Loop();
  /// Hands on the first of those that wait, unless they have gone.
  void Accept(int listening);
  /// Takes one connection off the queue and ends it, with the descriptor that is kept for that.
  void TurnOneAway(int listening);
  bool HasRoom();
  /// False when it should stop.
  bool Pause() const;

  const std::string address_;
  const std::size_t most_connections_;
  int port_ = 0;
  int stop_event_ = -1;
  int reserve_ = -1;
  std::vector<int> listening_;
  Take take_;
  // By descriptor, which socket it was when it was handed on: how many are still the same says how many are open. Used
  // on the thread alone.
  std::unordered_map<int, unsigned long> handed_on_;
  std::thread thread_;
};

}  // namespace fulcrum::pipeline
