// Rows of a stream as clients send them, checked and prepared. Stateless.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/campaign/campaign_plan.h"
#include "pipeline/campaign/pool/campaign_pool.h"
#include "pipeline/campaign/stream/offer_record.h"
#include "stages/kernel/features.h"

namespace fulcrum::pipeline {

/// Of a request, and of those that are decided together.
inline constexpr std::size_t kMostOfferedRows = 10'000;

/// Rows that came with one request.
struct OfferRequest {
  std::string by = {};  ///< who offers them
  std::string request_id = {};
  google::protobuf::RepeatedPtrField<v1::OfferedItem> items = {};
  google::protobuf::RepeatedPtrField<std::string> feature_names = {};
};

struct OfferedRows {
  std::string content = {};  ///< a checksum of the request
  std::vector<OfferedRow> rows = {};
  std::unique_ptr<kernel::Features> features = {};  ///< normalised as the pool's
};

/// FailedPrecondition if the pool has no ids or is sparse; InvalidArgument for rows that are not the pool's, or that no
/// round could compute with.
absl::StatusOr<OfferedRows> ReadOfferRequest(const CampaignPlan& plan, const CampaignPool& pool,
                                             const OfferRequest& request);

}  // namespace fulcrum::pipeline
