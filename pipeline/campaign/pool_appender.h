// Takes rows from outside into a campaign's pool: checked, made durable, told to the log, and then in memory.
//
// The rows become an imported pool in a folder of their own, pool/appended-00001 and so on. The log names a folder
// after it is whole and on disk; one that it does not name is left over from something interrupted and is replaced. One
// request at a time, which is whoever has the upload. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/campaign/growing_pool.h"
#include "pipeline/campaign/row_upload.h"
#include "storage/campaign_store.h"
#include "storage/pool/known_rows.h"

namespace fulcrum::pipeline {

struct AppendRequest {
  std::string by = {};  ///< who appends
  std::string request_id = {};
  std::string file = {};      ///< of the upload
  std::string checksum = {};  ///< of that file
  /// What messages call it; where it lies is nobody's business.
  std::string called = "the stream";
};

struct Appended {
  v1::AppendItemsResponse response = {};
  bool repeated = false;  ///< it was answered before, and nothing was done now
};

class PoolAppender {
 public:
  /// Says whether there is memory for the pool when it has grown to so many bytes.
  using Admit = std::function<absl::Status(std::size_t pool_bytes)>;

  /// Both must outlive it.
  PoolAppender(GrowingPool& pool, storage::CampaignStore& store, Admit admit)
      : pool_(pool), store_(store), admit_(std::move(admit)) {}

  /// Where to put the rows. Aborted where somebody else is appending.
  absl::StatusOr<std::unique_ptr<RowUpload>> BeginUpload() { return RowUpload::Begin(store_.folder().path(), busy_); }

  /// OK: the rows are in the pool, on disk. FailedPrecondition where the pool has no ids or the campaign is over,
  /// InvalidArgument where the file is not what it should be, ResourceExhausted where there is no memory for more; the
  /// pool is as before then.
  absl::StatusOr<Appended> Append(const AppendRequest& request);

 private:
  absl::StatusOr<v1::AppendItemsResponse> AppendNew(const AppendRequest& request, const CampaignPool& pool,
                                                    std::size_t number);

  GrowingPool& pool_;
  storage::CampaignStore& store_;
  const Admit admit_;
  const std::shared_ptr<std::atomic<bool>> busy_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace fulcrum::pipeline
