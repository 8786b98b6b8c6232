// Rows of features as clients send them, in the columns of a campaign's pool.
//
// Immutable and thread-safe; the pool must outlive it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/campaign/pool/campaign_pool.h"

namespace fulcrum::pipeline {

class FeatureRows {
 public:
  /// `names` are those of the columns of the rows; empty: the pool's columns in their order. InvalidArgument, with
  /// names, unless they are the features of the pool.
  static absl::StatusOr<FeatureRows> Make(const CampaignPool& pool,
                                          const google::protobuf::RepeatedPtrField<std::string>& names);

  /// Writes a row, with 32 bits as in the pool's files and not normalised, to `to`, which has a place for each feature
  /// of the pool. InvalidArgument for a row that is not one of the pool's; `called` is its name in the message.
  absl::Status Read(const v1::FeatureRow& row, const std::string& called, std::span<double> to) const;

 private:
  std::vector<std::size_t> columns_;  // where each feature of the pool is; empty: in their order
};

}  // namespace fulcrum::pipeline
