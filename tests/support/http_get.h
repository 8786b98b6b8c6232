// Sends a GET request to an HTTP server on this machine and returns the raw response.
#pragma once

#include <string>

namespace fulcrum::testing {

/// Returns status line, headers and body of the response to GET http://127.0.0.1:PORT/PATH; empty if nothing listens
/// there.
std::string HttpGet(int port, const std::string& path, const std::string& method = "GET");

}  // namespace fulcrum::testing
