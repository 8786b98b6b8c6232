// A connection of the web server: requests and answers in turn, over TCP or TLS.
//
// Owns itself: it lives while an operation or an answer is under way. Thread-safe.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "pipeline/web/web_server.h"

namespace fulcrum::pipeline {

/// What all connections of a server share; it lives until the last of them is gone.
struct WebServerState {
  WebServerState(const WebServerOptions& server_options, WebServer::Handler request_handler, int threads)
      : options(server_options), handler(std::move(request_handler)), context(threads) {}

  const WebServerOptions options;
  const WebServer::Handler handler;
  boost::asio::io_context context;
  std::atomic<bool> stopping = false;
  std::atomic<std::size_t> buffered_bytes = 0;  ///< of large requests that are being received
  std::atomic<std::size_t> unsent_bytes = 0;    ///< of large answers that are being sent
  std::mutex mutex;
  /// Closes a connection, at once or only if it is idle. By connection.
  std::unordered_map<const void*, std::function<void(bool at_once)>> connections;
};

/// Serves a connection that was accepted, with TLS if there are certificates.
void BeginWebConnection(const std::shared_ptr<WebServerState>& server, boost::asio::ip::tcp::socket socket,
                        boost::asio::ssl::context* certificates);

}  // namespace fulcrum::pipeline
