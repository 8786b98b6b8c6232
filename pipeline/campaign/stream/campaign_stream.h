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
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/campaign/campaign_plan.h"
#include "pipeline/campaign/pool/campaign_pool.h"
#include "pipeline/campaign/pool/pool_growth.h"
#include "stages/core/matrix.h"
#include "stages/ingest/columns/column_roles.h"
#include "stages/kernel/features.h"
#include "stages/stream/stream_model.h"
#include "stages/stream/stream_selector.h"
#include "storage/campaign_folder.h"
#include "storage/campaign_store.h"
#include "storage/rules/offer_rules.h"

namespace fulcrum::pipeline {

// What the rows of a stream are compared with during a round, as a file next to the scores of the round.
//
// The file makes the decisions of a campaign that is opened again the same as before. Stateless; one campaign is
// handled by one thread.

struct RoundStreamModel {
  std::shared_ptr<const stream::StreamModel> model = {};
  /// How the features are normalised besides what the pool does; empty: not at all.
  std::string normalize = {};
};

/// Returns the name for CommitBatchRequest::files.
absl::StatusOr<std::string> WriteStreamModel(const storage::CampaignFolder& folder, std::int64_t round,
                                             const RoundStreamModel& model);

/// Of a committed round. NotFound if it has none, DataLoss if the file is damaged.
absl::StatusOr<RoundStreamModel> ReadStreamModel(const storage::CampaignFolder& folder, std::int64_t round);

/// Before the first round, when nothing is known but the rows that the campaign began with: leverage and novelty.
absl::StatusOr<RoundStreamModel> FirstStreamModel(const CampaignPlan& plan, const CampaignPool& pool);

// What was decided about the rows of one request, as it is kept in the log: the answers, the rows that join the pool,
// and what the next decisions continue with.
//
// Binary and little-endian, written as text in base64, because the log has texts. A plain value; stateless functions.

/// A row that joins the pool.
struct OfferedRow {
  std::string id = {};
  std::string payload = {};
  double cost = 0;
  std::vector<float> features = {};  ///< as in the pool's files
};

enum class RowDecision : std::uint8_t { kLabel = 1, kSkip = 2, kExisting = 3 };

struct RowAnswer {
  RowDecision decision = RowDecision::kSkip;
  double score = 0;
  double threshold = 0;
};

struct OfferRecord {
  struct Kept {
    std::uint32_t place = 0;  ///< in the request
    OfferedRow row = {};
  };
  std::uint64_t model = 0;  ///< its fingerprint
  double seconds = 0;       ///< when it was decided
  /// After the last row: all of the selector's state, or what does not follow from the record and the state before.
  std::string state = {};
  std::vector<RowAnswer> answers = {};  ///< in the order of the request
  std::vector<Kept> kept = {};          ///< in the order of the request
};

std::string EncodeRecord(const OfferRecord& record);
/// DataLoss if EncodeRecord did not write it.
absl::StatusOr<OfferRecord> DecodeRecord(absl::string_view text);

/// Rows of a stream that are in the log and not yet in the files of the pool. Thread-safe; nothing but Store waits.
class WaitingRows {
 public:
  /// Of rows whose record is being written.
  static constexpr std::int64_t kNotCommitted = std::numeric_limits<std::int64_t>::max();

  /// A row, the last of all; `sequence` is that of a record which has it, or of a later one.
  void Add(const OfferedRow& row, std::int64_t sequence);
  /// The records up to this one are in the log, and with them the rows that were added before and not forgotten.
  void Commit(std::int64_t sequence);
  /// Those that are not committed.
  void ForgetUncommitted();

  bool Has(absl::string_view item) const;
  /// Nothing for an item that does not wait here.
  std::optional<std::string> PayloadOf(absl::string_view item) const;
  std::optional<std::size_t> PayloadBytes(absl::string_view item) const;
  std::size_t size() const;
  /// Memory that they take.
  std::size_t bytes() const;

  /// Puts those that are committed into files of the pool. Aborted while others append.
  absl::Status Store(const GrowingPool& pool, PoolAppender& appender);

 private:
  struct Waiting {
    OfferedRow row = {};
    std::int64_t sequence = 0;
    std::int64_t number = 0;  ///< in the order of arrival
  };

  mutable std::mutex mutex_;
  absl::node_hash_map<std::string, Waiting> rows_;  // by id
  std::vector<std::string> uncommitted_;
  std::size_t bytes_ = 0;
  std::int64_t last_number_ = 0;
  std::int64_t committed_ = 0;
  std::mutex storing_;
};

struct OfferedTable {
  std::string bytes = {};  ///< an Arrow IPC stream
  ingest::ColumnOptions columns = {};
};

/// Payloads and costs have columns of their own, also in a pool that has none so far.
absl::StatusOr<OfferedTable> MakeOfferedTable(const CampaignPool& pool, const std::vector<const OfferedRow*>& rows);

// Rows of a stream as clients send them, checked and prepared. Stateless.

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
