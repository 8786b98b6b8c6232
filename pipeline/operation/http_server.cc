#include "pipeline/operation/http_server.h"

#include <civetweb.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace fulcrum::pipeline {
namespace {

// A scraper and two probes at once, and one to spare.
constexpr char kThreads[] = "4";
// A connection that says nothing for so long is closed, so that it does not hold a thread.
constexpr char kRequestMilliseconds[] = "5000";

void Send(mg_connection* connection, const HttpAnswer& answer, const char* more_headers = "") {
  mg_printf(connection,
            "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nCache-Control: no-store\r\n"
            "%sConnection: close\r\n\r\n",
            answer.code, mg_get_response_code_text(connection, answer.code), answer.type.c_str(), answer.body.size(),
            more_headers);
  mg_write(connection, answer.body.data(), answer.body.size());
}

int Handle(mg_connection* connection, void* data) {
  const auto& handlers = *static_cast<const HttpServer::Handlers*>(data);
  const mg_request_info* request = mg_get_request_info(connection);
  const auto found = handlers.find(request->local_uri);
  if (found == handlers.end()) {
    std::string paths;
    for (const auto& [path, handler] : handlers) absl::StrAppend(&paths, path, "\n");
    Send(connection, {.code = 404, .body = absl::StrCat("there is nothing here; there is:\n", paths)});
  } else if (std::string(request->request_method) != "GET") {
    Send(connection, {.code = 405, .body = "only GET is answered\n"}, "Allow: GET\r\n");
  } else {
    Send(connection, found->second());
  }
  return 1;
}

/// civetweb would write to a file of its own in the working directory.
int KeepQuiet(const mg_connection* /*connection*/, const char* /*message*/) {
  return 1;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& address, Handlers handlers) {
  std::unique_ptr<HttpServer> server(new HttpServer(std::move(handlers)));
  const char* options[] = {"listening_ports",    address.c_str(),      "num_threads", kThreads,
                           "request_timeout_ms", kRequestMilliseconds, nullptr};
  mg_callbacks callbacks{};
  callbacks.log_message = KeepQuiet;
  server->context_ = mg_start(&callbacks, nullptr, options);
  if (server->context_ == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", address,
                     " for metrics: check that it is HOST:PORT, that the address is this machine's, and that no other "
                     "process has the port (ss -ltnp shows which)"));
  }
  mg_set_request_handler(server->context_, "/", Handle,
                         const_cast<Handlers*>(&server->handlers_));  // NOLINT: civetweb hands it back as it is
  mg_server_port port{};
  if (mg_get_server_ports(server->context_, 1, &port) == 1) server->port_ = port.port;
  return server;
}

HttpServer::~HttpServer() {
  if (context_ != nullptr) mg_stop(context_);
}

}  // namespace fulcrum::pipeline
