// Health checks of the parts of the daemon. Plain functions; thread-safe.
#pragma once

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "pipeline/campaign/campaign_registry.h"
#include "pipeline/operation/watchdog.h"
#include "pipeline/server/grpc_server.h"

namespace fulcrum::pipeline {

/// The listener accepts connections. The arguments are those of ProbeListener.
Probe ListenerProbe(std::string address, int port, bool tls);
/// Calls are answered: one in-process call to the server.
Probe CallProbe(const GrpcServer& server);
/// The writing thread of every campaign answers a read-only request.
Probe StoreProbe(const CampaignRegistry& campaigns);

/// Returns the error of the first failed store, if any.
absl::Status CheckStores(const CampaignRegistry& campaigns);
/// Broken and quarantined campaigns and those that lost events, with the reason, one line each; empty if there are
/// none. They do not make the daemon unready: the other campaigns would be unreachable until an administrator acts.
std::string DescribeProblems(const CampaignRegistry& campaigns);
/// Writes a file and removes it again.
absl::Status CheckDiskIsWritable(const std::string& folder);

/// "3 campaigns, 2 of them running; 5 leases, 120 labels", for the service manager's status.
std::string DescribeInOneLine(const CampaignRegistry& campaigns);

// Checks from outside that a listener still accepts connections.
//
// gRPC's listener can stop accepting permanently without an error (when the process has run out of file descriptors).
// The kernel still completes handshakes, so only a response counts: an HTTP/2 server sends the first frame, and a TLS
// server answers a ClientHello. A pure function, thread-safe.

/// `address` is the configured address (host:port, [ipv6]:port or unix:path), `port` the bound port.
/// Unavailable if there is no response in time.
absl::Status ProbeListener(const std::string& address, int port, std::chrono::milliseconds timeout, bool tls = false);

}  // namespace fulcrum::pipeline
