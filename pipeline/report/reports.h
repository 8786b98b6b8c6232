// The labels of a campaign, summed up for people: by class, by annotator and over time, how much annotators agree, and
// how often the model was right about what it selected.
//
// A function of the campaign's log and of the records of its rounds; thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "fulcrum/v1/pool_service.pb.h"
#include "fulcrum/v1/report_service.pb.h"
#include "pipeline/campaign/campaign.h"
#include "pipeline/campaign/pool/upload_store.h"

namespace fulcrum::pipeline {

/// Reads the whole label log. The model is compared with the labels of the last 100 rounds.
absl::StatusOr<v1::GetLabelReportResponse> ReportLabels(Campaign& campaign);

/// The last report of a few campaigns, because every open page asks for it whenever labels arrive. One that took long
/// to compute is not computed again before ten times as long has passed: the report of a campaign with millions of
/// labels may be some seconds old, as its sequence number shows.
class LabelReports {
 public:
  absl::StatusOr<v1::GetLabelReportResponse> Get(Campaign& campaign);

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    std::mutex mutex = {};                        ///< held while the report is computed
    std::weak_ptr<const CampaignPool> pool = {};  ///< another campaign of the name has another
    Clock::time_point fresh_until = {};
    std::shared_ptr<const v1::GetLabelReportResponse> report = {};
  };

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Entry>> last_;  // by campaign
};

// The pool of a campaign as a picture: its rows on the two leading principal components in the space of the leverage
// kernel, with their leverage.
//
// The components are those of a few hundred landmarks, drawn uniformly; other rows are projected onto them (Nystroem),
// which costs one kernel value per row and landmark. Of a large pool a sample is projected. The same pool, round and
// seed give the same picture. Thread-safe.

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

// What a campaign could be created from: the files in the folder of pools, and the beginning of one of them with the
// roles of its columns and warnings.
//
// Functions of the file system; thread-safe.

/// A page of the entries of a folder inside `root`. InvalidArgument for a folder outside of it.
absl::StatusOr<v1::ListPoolFilesResponse> ListPoolFiles(const std::string& root,
                                                        const v1::ListPoolFilesRequest& request, std::size_t page_size);

/// Reads up to 20,000 rows. `memory_bytes` is what a round may use, for the choice of the engine.
absl::StatusOr<v1::GetPoolPreviewResponse> PreviewPool(const PoolPlaces& places, std::size_t memory_bytes,
                                                       const v1::GetPoolPreviewRequest& request);

}  // namespace fulcrum::pipeline
