// What the web server answers: the page at "/", the API as JSON, sessions, and media files of the pool folder.
//
//   GET    /, /app.js, ...                   the page; compiled into the program
//   GET    /openapi.json                     the API for tools, made from the .proto files
//   POST   /fulcrum.v1.SERVICE/METHOD        a call, see connect_gateway.h
//   POST   /session  {"token": "..."}        signs in: the token is kept in a cookie that scripts cannot read
//   DELETE /session                          signs out
//   GET    /files/PATH                       an image, a sound or a video inside the folder of pools
//
// A browser may use the session only from the page itself: a POST of another origin is refused, and a server without
// tokens answers only under a loopback name, so that no other web site can reach it through a browser. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "pipeline/web/connect_gateway.h"
#include "pipeline/web/media_files.h"
#include "pipeline/web/web_server.h"

namespace fulcrum::pipeline {

class WebSite {
 public:
  struct Options {
    std::string pool_root = {};
    bool tokens = true;
  };

  WebSite(const Options& options, const std::shared_ptr<grpc::Channel>& channel);

  void Handle(WebRequest request, const std::shared_ptr<WebExchange>& exchange);

 private:
  absl::Status CheckOrigin(const WebRequest& request) const;
  void Call(const google::protobuf::MethodDescriptor& method, WebRequest request,
            const std::shared_ptr<WebExchange>& exchange);
  void Stream(GatewayCall call, const std::shared_ptr<WebExchange>& exchange);
  void SignIn(const WebRequest& request, const std::shared_ptr<WebExchange>& exchange);
  void SendFile(const WebRequest& request, const std::shared_ptr<WebExchange>& exchange);

  const Options options_;
  ConnectGateway gateway_;
  MediaFiles media_;
};

}  // namespace fulcrum::pipeline
