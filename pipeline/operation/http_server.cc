#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "pipeline/operation/watchdog.h"
#include "pipeline/server/executor.h"
#include "pipeline/server/transport/connection_listener.h"
#include "pipeline/text/structured_log.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kThreads = 2;
constexpr std::size_t kMostQueued = 64;
constexpr std::size_t kMostConnections = 256;
constexpr std::size_t kLongestRequest = 8192;
constexpr std::chrono::milliseconds kRequestTime{5'000};
constexpr std::chrono::milliseconds kAnswerTime{30'000};
constexpr std::chrono::milliseconds kPause{100};
constexpr char kEndOfHeaders[] = "\r\n\r\n";

const char* PhraseOf(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 431:
      return "Request Header Fields Too Large";
    default:
      return "Service Unavailable";
  }
}

std::string Serialize(const HttpAnswer& answer, const char* more_headers = "") {
  return absl::StrCat("HTTP/1.1 ", answer.code, " ", PhraseOf(answer.code), "\r\nContent-Type: ", answer.type,
                      "\r\nContent-Length: ", answer.body.size(), "\r\nCache-Control: no-store\r\n", more_headers,
                      "Connection: close\r\n\r\n", answer.body);
}

}  // namespace

class HttpServer::Loop {
 public:
  static std::map<std::string, std::unique_ptr<Executor>> ExecutorsOf(const Handlers& handlers) {
    std::map<std::string, std::unique_ptr<Executor>> executors;
    for (const auto& [path, handler] : handlers) {
      if (!handler.urgent) executors.emplace(path, std::make_unique<Executor>(kThreads, kMostQueued));
    }
    return executors;
  }

  Loop(std::unique_ptr<ConnectionListener> listener, Handlers handlers)
      : listener_(std::move(listener)),
        handlers_(std::move(handlers)),
        executors_(ExecutorsOf(handlers_)),
        wake_event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        thread_([this] { Run(); }) {
    listener_->Start([this](int /*listening*/, int descriptor) {
      {
        const std::scoped_lock lock(mutex_);
        accepted_.push_back(descriptor);
      }
      Wake();
    });
  }
  ~Loop() {
    listener_->Stop();
    {
      const std::scoped_lock lock(mutex_);
      stopping_ = true;
    }
    Wake();
    thread_.join();
    // Not earlier: the thread hands requests to it.
    executors_.clear();
    for (const int descriptor : accepted_) close(descriptor);
    for (const Connection& connection : connections_) close(connection.descriptor);
    close(wake_event_);
  }

  int port() const { return listener_->port(); }

 private:
  struct Connection {
    int descriptor = -1;
    std::uint64_t id = 0;
    Clock::time_point deadline = {};
    std::string request = {};
    std::string answer = {};
    std::size_t sent = 0;
    enum class State { kReading, kWaiting, kWriting, kOver } state = State::kReading;
  };
  using State = Connection::State;

  void Wake() const {
    const std::uint64_t one = 1;
    // It fails only if a wake-up is already pending.
    static_cast<void>(write(wake_event_, &one, sizeof(one)) == sizeof(one));
  }

  void Run() {
    std::vector<pollfd> events;
    while (TakePosted()) {
      events.assign(1, {.fd = wake_event_, .events = POLLIN, .revents = 0});
      for (const Connection& connection : connections_) {
        const short wanted = connection.state == State::kReading ? POLLIN : POLLOUT;
        // A connection that waits for its handler is not polled, not even for being closed: the handler ends anyway.
        const int descriptor = connection.state == State::kWaiting ? -1 : connection.descriptor;
        events.push_back({.fd = descriptor, .events = wanted, .revents = 0});
      }
      NotePoll(poll(events.data(), events.size(), MillisecondsToDeadline()) < 0 ? errno : 0);
      std::uint64_t count = 0;
      static_cast<void>(read(wake_event_, &count, sizeof(count)) == sizeof(count));
      for (std::size_t i = 0; i < connections_.size(); ++i) {
        if (events[i + 1].revents != 0) Serve(connections_[i]);
      }
      RemoveOver();
    }
  }

  /// No memory, or fewer descriptors allowed than are open: it may pass, and without probes the daemon would be killed.
  void NotePoll(int error) {
    if (error == EINTR) return;
    if (error != 0 && !poll_failed_) {
      Log(LogLevel::kWarning, "probes are delayed: waiting for connections failed",
          {{"reason", std::string(std::strerror(error))}});
    }
    poll_failed_ = error != 0;
    if (poll_failed_) std::this_thread::sleep_for(kPause);
  }

  int MillisecondsToDeadline() const {
    auto first = Clock::now() + std::chrono::hours(1);
    for (const Connection& connection : connections_) first = std::min(first, connection.deadline);
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(first - Clock::now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left + 1, 0, 3'600'000));
  }

  /// New connections, and answers of handlers. False if the server is to end.
  bool TakePosted() {
    std::vector<int> accepted;
    std::vector<std::pair<std::uint64_t, std::string>> answers;
    {
      const std::scoped_lock lock(mutex_);
      if (stopping_) return false;
      accepted.swap(accepted_);
      answers.swap(answers_);
    }
    for (auto& [id, text] : answers) {
      const auto found = std::find_if(connections_.begin(), connections_.end(),
                                      [id = id](const Connection& connection) { return connection.id == id; });
      if (found != connections_.end()) Answer(*found, std::move(text));
    }
    for (const int descriptor : accepted) {
      if (connections_.size() >= kMostConnections) EvictOldest();
      connections_.push_back({.descriptor = descriptor, .id = ++last_id_, .deadline = Clock::now() + kRequestTime});
      Serve(connections_.back());
    }
    RemoveOver();
    return true;
  }

  void EvictOldest() {
    // Connections are in the order of arrival. Those that wait for a handler are few and will be answered soon.
    const auto oldest = std::find_if(connections_.begin(), connections_.end(),
                                     [](const Connection& connection) { return connection.state != State::kWaiting; });
    if (oldest == connections_.end()) return;
    close(oldest->descriptor);
    connections_.erase(oldest);
  }

  void RemoveOver() {
    const Clock::time_point now = Clock::now();
    std::erase_if(connections_, [&](const Connection& connection) {
      const bool late = connection.deadline <= now && connection.state != State::kWaiting;
      if (connection.state != State::kOver && !late) return false;
      close(connection.descriptor);
      return true;
    });
  }

  void Serve(Connection& connection) {
    if (connection.state == State::kReading) Read(connection);
    if (connection.state == State::kWriting) Write(connection);
  }

  void Read(Connection& connection) {
    std::array<char, 4096> buffer{};
    while (connection.state == State::kReading) {
      const ssize_t count = recv(connection.descriptor, buffer.data(), buffer.size(), 0);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (count <= 0) {
        connection.state = State::kOver;
        return;
      }
      connection.request.append(buffer.data(), static_cast<std::size_t>(count));
      if (connection.request.find(kEndOfHeaders) != std::string::npos) {
        Dispatch(connection);
      } else if (connection.request.size() > kLongestRequest) {
        Answer(connection, Serialize({.code = 431, .body = "the request is too long\n"}));
      }
    }
  }

  void Dispatch(Connection& connection) {
    const std::vector<std::string> words =
        absl::StrSplit(connection.request.substr(0, connection.request.find("\r\n")), ' ');
    const std::string path = words.size() < 2 ? "" : words[1].substr(0, words[1].find('?'));
    const auto found = handlers_.find(path);
    if (found == handlers_.end()) {
      std::string paths;
      for (const auto& [known, handler] : handlers_) absl::StrAppend(&paths, known, "\n");
      return Answer(connection, Serialize({.code = 404, .body = absl::StrCat("not found; there is:\n", paths)}));
    }
    if (words[0] != "GET") {
      return Answer(connection, Serialize({.code = 405, .body = "only GET is answered\n"}, "Allow: GET\r\n"));
    }
    if (found->second.urgent) return Answer(connection, Serialize(found->second.answer()));
    connection.state = State::kWaiting;
    const bool queued = executors_.at(path)->Submit([this, id = connection.id, &answer = found->second.answer] {
      std::string text = Serialize(answer());
      {
        const std::scoped_lock lock(mutex_);
        answers_.emplace_back(id, std::move(text));
      }
      Wake();
    });
    if (!queued) Answer(connection, Serialize({.code = 503, .body = "too many requests wait; try again\n"}));
  }

  static void Answer(Connection& connection, std::string text) {
    connection.answer = std::move(text);
    connection.state = State::kWriting;
    connection.deadline = Clock::now() + kAnswerTime;
    Write(connection);
  }

  static void Write(Connection& connection) {
    while (connection.sent < connection.answer.size()) {
      const ssize_t count = send(connection.descriptor, connection.answer.data() + connection.sent,
                                 connection.answer.size() - connection.sent, MSG_NOSIGNAL);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (count < 0) break;
      connection.sent += static_cast<std::size_t>(count);
    }
    connection.state = State::kOver;
  }

  const std::unique_ptr<ConnectionListener> listener_;
  const Handlers handlers_;
  std::map<std::string, std::unique_ptr<Executor>> executors_;  // by path: a flood of one delays no other
  const int wake_event_;
  std::vector<Connection> connections_;  // used by the thread only
  std::uint64_t last_id_ = 0;            // used by the thread only
  bool poll_failed_ = false;             // used by the thread only

  std::mutex mutex_;
  std::vector<int> accepted_;
  std::vector<std::pair<std::uint64_t, std::string>> answers_;
  bool stopping_ = false;

  std::thread thread_;  // last: it uses all of the above
};

HttpServer::HttpServer(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}

HttpServer::~HttpServer() = default;

int HttpServer::port() const {
  return loop_->port();
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& address, Handlers handlers) {
  // The server itself limits connections, because it must accept a probe even if there are too many others.
  FULCRUM_ASSIGN_OR_RETURN(auto listener, ConnectionListener::Open(address, SIZE_MAX));
  return std::unique_ptr<HttpServer>(new HttpServer(std::make_unique<Loop>(std::move(listener), std::move(handlers))));
}

}  // namespace fulcrum::pipeline
