// Asks a listener from outside whether it still takes connections, as the next worker would find out.
//
// gRPC's listener can stop accepting for good without telling anybody (it does when the process has run out of file
// descriptors). The kernel goes on completing handshakes, so only an answer counts: a server of HTTP/2 speaks first,
// and one that expects TLS hangs up on the greeting. A pure function, thread-safe.
#pragma once

#include <chrono>
#include <string>

#include "absl/status/status.h"

namespace fulcrum::pipeline {

/// `address` is what the server was told to listen on (host:port, [ipv6]:port or unix:path), `port` what it got.
/// Unavailable where nobody answers in time.
absl::Status KnockAtListener(const std::string& address, int port, std::chrono::milliseconds patience);

}  // namespace fulcrum::pipeline
