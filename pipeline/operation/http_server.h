// A small HTTP server for those who watch the daemon: a scraper, an orchestrator's probes, a person with curl.
//
// GET only, a fixed set of paths, answers that are made when they are asked for. Handlers run on the server's own
// threads and must be thread-safe; the destructor waits for those that are running. Owns its sockets and threads.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

struct mg_context;

namespace fulcrum::pipeline {

struct HttpAnswer {
  int code = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body = {};
};

class HttpServer {
 public:
  using Handlers = std::map<std::string, std::function<HttpAnswer()>>;  ///< by path

  /// Listens on HOST:PORT; port 0 lets the system choose. Unavailable where it cannot.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address, Handlers handlers);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const { return port_; }

 private:
  explicit HttpServer(Handlers handlers) : handlers_(std::move(handlers)) {}

  const Handlers handlers_;
  mg_context* context_ = nullptr;
  int port_ = 0;
};

}  // namespace fulcrum::pipeline
