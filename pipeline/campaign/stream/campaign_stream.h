// The rows that are offered to a campaign: decided in the order in which they come, and durable before they are
// answered.
//
// Requests that arrive while others are written are decided together and written in one commit. A decision is a
// function of the decisions before it, which are in the log, and of the model of the last round, which is a file of
// that round: a campaign that is opened again continues with the same decisions. Rows that are taken, or kept, are in
// memory until Store puts them into files of the pool, before each round and whenever there are many.
//
// Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/campaign/campaign_plan.h"
#include "pipeline/campaign/pool/campaign_pool.h"
#include "pipeline/campaign/pool/pool_growth.h"
#include "pipeline/campaign/stream/offer_record.h"
#include "pipeline/campaign/stream/offer_request.h"
#include "pipeline/campaign/stream/stream_model_file.h"
#include "pipeline/campaign/stream/waiting_rows.h"
#include "stages/core/matrix.h"
#include "stages/stream/stream_selector.h"
#include "storage/campaign_store.h"
#include "storage/rules/offer_rules.h"

namespace fulcrum::pipeline {

class CampaignStream {
 public:
  /// Continues where the log ends. The pool, the store and the appender must outlive it. `plan` returns that of the
  /// campaign, as it is now.
  static absl::StatusOr<std::unique_ptr<CampaignStream>> Open(std::function<std::shared_ptr<const CampaignPlan>()> plan,
                                                              GrowingPool& pool, storage::CampaignStore& store,
                                                              PoolAppender& appender);

  /// In the order of the rows. InvalidArgument for rows that are not the pool's, AlreadyExists if the id was used for
  /// another request, ResourceExhausted if too many rows wait; nothing is decided then.
  absl::StatusOr<std::vector<v1::OfferAnswer>> Offer(const OfferRequest& request);

  /// Puts the rows that wait into files of the pool. Aborted while others append.
  absl::Status Store() { return waiting_.Store(pool_, appender_); }

  /// Rows that are not in the pool's files yet.
  const WaitingRows& waiting() const { return waiting_; }
  /// Whether the last window of rows was not distributed as those of the pool.
  bool drifting() const;

 private:
  /// A request on its way.
  struct Offered {
    storage::OfferedGroup group = {};
    OfferedRows read = {};
    OfferRecord record = {};
    bool done = false;
    absl::StatusOr<std::vector<RowAnswer>> answers =
        absl::ResourceExhaustedError("the server does not have enough memory to decide the rows now; offer them again");
  };

  CampaignStream(std::function<std::shared_ptr<const CampaignPlan>()> plan, GrowingPool& pool,
                 storage::CampaignStore& store, PoolAppender& appender)
      : plan_(std::move(plan)), pool_(pool), store_(store), appender_(appender) {}

  /// Decides those at the front of the queue. Under mutex_, which it releases meanwhile.
  void Lead(std::unique_lock<std::mutex>& lock);
  /// Those that are decided together, from the front of the queue.
  void TakeGroup(std::vector<Offered*>& group);

  // The following are called by one thread at a time, the one that leads.

  /// Sets the answers of all of them.
  void Answer(const std::vector<Offered*>& group);
  /// Answers requests that took effect before; returns the others.
  std::vector<Offered*> AnswerRepeated(const std::vector<Offered*>& group);
  /// Decides requests that are new, and makes the decisions durable. Aborted: they must be decided again. Those with a
  /// row that cannot be decided get their answer and leave the list.
  absl::Status DecideAndWrite(std::vector<Offered*>& fresh);
  /// Decides all of them; null, or the first that cannot be decided and has its answer.
  Offered* DecideAll(const std::vector<Offered*>& fresh);
  absl::Status Decide(Offered& offered, double seconds);
  absl::Status Write(const std::vector<Offered*>& decided);
  static bool IsKept(const std::string& id, double share);
  /// Makes the decisions follow the model of the last round.
  absl::Status FollowRound();
  /// Makes a selector of what the log says.
  absl::Status Continue(const RoundStreamModel& current);
  absl::Status Repeat(const OfferRecord& record, bool same_model, stream::StreamSelector& selector) const;
  absl::StatusOr<RoundStreamModel> ModelOf(std::int64_t round) const;
  absl::StatusOr<Matrix<double>> Normalized(const kernel::Features& features) const;
  void NoteDrifting();
  void NoteDrift(const Offered& offered, std::size_t row) const;

  const std::function<std::shared_ptr<const CampaignPlan>()> plan_;
  GrowingPool& pool_;
  storage::CampaignStore& store_;
  PoolAppender& appender_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Offered*> queue_;   // not taken yet
  std::size_t queued_rows_ = 0;  // of those
  bool leading_ = false;         // a thread decides
  bool drifting_ = false;

  // Of the thread that leads.
  std::optional<stream::StreamSelector> selector_;
  std::int64_t round_ = 0;         // whose model it has
  std::string normalize_;          // of that model
  std::int64_t decided_rows_ = 0;  // in the log
  /// What was written since the last record with the whole state.
  struct Since {
    std::int64_t rows = 0;
    std::int64_t records = 0;
    bool due = true;  ///< the next record needs the whole state
  };
  Since since_complete_;

  WaitingRows waiting_;
};

}  // namespace fulcrum::pipeline
