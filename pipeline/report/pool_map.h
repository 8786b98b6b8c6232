// The pool of a campaign as a picture: its rows on the two leading principal components in the space of the leverage
// kernel, with their leverage.
//
// The components are those of a few hundred landmarks, drawn uniformly; other rows are projected onto them (Nystroem),
// which costs one kernel value per row and landmark. Of a large pool a sample is projected. The same pool, round and
// seed give the same picture. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "fulcrum/v1/report_service.pb.h"
#include "pipeline/campaign/campaign.h"

namespace fulcrum::pipeline {

/// The picture of the last round, with the states of the examples as they are now. Keeps the last picture of a few
/// campaigns, because the page asks again whenever labels arrive.
class PoolMaps {
 public:
  absl::StatusOr<v1::GetPoolMapResponse> Get(Campaign& campaign, std::size_t max_points);

 private:
  struct Entry {
    std::mutex mutex = {};                        ///< held while the picture is computed
    std::weak_ptr<const CampaignPool> pool = {};  ///< a pool that grew, or another campaign of the name, has another
    std::size_t max_points = 0;
    std::shared_ptr<const v1::GetPoolMapResponse> map = {};
  };

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Entry>> last_;  // by campaign
};

/// Computes the picture without the states; for PoolMaps and its test.
absl::StatusOr<v1::GetPoolMapResponse> DrawPool(Campaign& campaign, std::size_t max_points);

}  // namespace fulcrum::pipeline
