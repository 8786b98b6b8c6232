// Asks an HTTP server on this machine, and keeps the answer as it came. A plain function.
#pragma once

#include <string>

namespace fulcrum::testing {

/// Status line, headers and body of the answer to GET http://127.0.0.1:PORT/PATH; empty where nobody listens.
std::string HttpGet(int port, const std::string& path, const std::string& method = "GET");

}  // namespace fulcrum::testing
