// How each part of the daemon is asked whether it is well. Plain functions; thread-safe.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "pipeline/campaign/campaign_book.h"
#include "pipeline/grpc_server.h"
#include "pipeline/operation/pulse.h"

namespace fulcrum::pipeline {

/// The listener takes connections. `address` and `port` as in KnockAtListener.
Probe ListenerProbe(std::string address, int port);
/// Calls are answered: one to the server itself, past the network.
Probe CallProbe(const GrpcServer& server);
/// Every campaign's writing thread answers a question that changes nothing.
Probe StoreProbe(const CampaignBook& campaigns);

/// The first store that is over, if any.
absl::Status CheckStores(const CampaignBook& campaigns);
/// Writes a file and removes it again.
absl::Status CheckDiskIsWritable(const std::string& folder);

/// "3 campaigns, 2 of them running; 5 leases, 120 labels", for whoever looks at the service.
std::string DescribeInOneLine(const CampaignBook& campaigns);

}  // namespace fulcrum::pipeline
