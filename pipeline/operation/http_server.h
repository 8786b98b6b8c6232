// A small HTTP server for monitoring: a scraper, an orchestrator's probes, a person with curl.
//
// GET only, a fixed set of paths. One thread waits for all connections at once, so that clients that send half a
// request or do not read the response do not delay others; when there are too many connections, the oldest incomplete
// request is closed. The handler of a path runs on two threads of its own, so that a flood of one path delays no other,
// except urgent ones, which are answered even if these are blocked. Handlers must be thread-safe; the destructor waits
// for those that are running. Owns its sockets and threads.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace fulcrum::pipeline {

struct HttpAnswer {
  int code = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body = {};
};

struct HttpHandler {
  std::function<HttpAnswer()> answer = {};
  bool urgent = false;  ///< runs on the thread that waits for connections, and must not block
};

class HttpServer {
 public:
  using Handlers = std::map<std::string, HttpHandler>;  ///< by path

  /// Listens on HOST:PORT; port 0 lets the system choose. Unavailable if it cannot.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address, Handlers handlers);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;

 private:
  class Loop;
  explicit HttpServer(std::unique_ptr<Loop> loop);

  const std::unique_ptr<Loop> loop_;
};

}  // namespace fulcrum::pipeline
