// How each part of the daemon is asked whether it is well. Plain functions; thread-safe.
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
/// Calls are answered: one to the server itself, past the network.
Probe CallProbe(const GrpcServer& server);
/// Every campaign's writing thread answers a question that changes nothing.
Probe StoreProbe(const CampaignRegistry& campaigns);

/// The first store that is over, if any.
absl::Status CheckStores(const CampaignRegistry& campaigns);
/// Broken and quarantined campaigns with the reason, one line each; empty if there are none. They do not make the
/// daemon unready: the other campaigns would be unreachable for as long as an administrator does nothing.
std::string DescribeProblems(const CampaignRegistry& campaigns);
/// Writes a file and removes it again.
absl::Status CheckDiskIsWritable(const std::string& folder);

/// "3 campaigns, 2 of them running; 5 leases, 120 labels", for the service manager's status.
std::string DescribeInOneLine(const CampaignRegistry& campaigns);

// Asks a listener from outside whether it still accepts connections, as the next worker would find out.
//
// gRPC's listener can stop accepting for good without telling anybody (it does when the process has run out of file
// descriptors). The kernel goes on completing handshakes, so only an answer counts: a server of HTTP/2 speaks first,
// and one that expects TLS answers a ClientHello. A pure function, thread-safe.

/// `address` is what the server was told to listen on (host:port, [ipv6]:port or unix:path), `port` what it got.
/// Unavailable if nobody answers in time.
absl::Status ProbeListener(const std::string& address, int port, std::chrono::milliseconds patience, bool tls = false);

}  // namespace fulcrum::pipeline
