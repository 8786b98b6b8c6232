// Rows that a stream brought, as a table that can be appended to the pool. Stateless.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/campaign/pool/campaign_pool.h"
#include "pipeline/campaign/stream/offer_record.h"
#include "stages/ingest/columns/column_roles.h"

namespace fulcrum::pipeline {

struct OfferedTable {
  std::string bytes = {};  ///< an Arrow IPC stream
  ingest::ColumnOptions columns = {};
};

/// Payloads and costs have columns of their own, also in a pool that has none so far.
absl::StatusOr<OfferedTable> MakeOfferedTable(const CampaignPool& pool, const std::vector<const OfferedRow*>& rows);

}  // namespace fulcrum::pipeline
