// Rounds and the life of a campaign: batches, models, settings.
//
// Run by the store like the lease rules. These are the daemon's and the administrator's requests; they are idempotent
// by their content (a round's number, the new settings), so most need no request id.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/state/ledger.h"

namespace fulcrum::storage {

struct BatchedItem {
  std::string item = {};
  double cost = 0;  ///< of one label
};

struct CommitBatchRequest {
  std::int64_t round = 0;               ///< one more than the last
  std::int64_t based_on = 0;            ///< log sequence that the batch is a function of
  std::vector<BatchedItem> items = {};  ///< best first
  std::vector<std::string> files = {};  ///< of the round, relative to the campaign's folder
  bool only_if_running = false;         ///< Aborted if the campaign was paused or ended meanwhile
};

struct CommitBatchAnswer {
  std::int64_t sequence = 0;
  bool repeated = false;  ///< this batch was committed before
};

/// Opens a round. FailedPrecondition where one is open, or an item is not in the pool; AlreadyExists where the round
/// was committed with other items.
absl::StatusOr<CommitBatchAnswer> CommitBatch(Ledger& ledger, const CommitBatchRequest& request);

struct AdvanceRequest {
  std::int64_t round = 0;
  std::string forced = {};  ///< a reason to close it whatever the policy says
};

struct AdvanceAnswer {
  bool closed = false;
  std::string reason = {};              ///< why it closed
  std::optional<Time> look_again = {};  ///< where it is open: when time alone may close it
};

/// Closes a round if its policy (or `forced`) says so; a round that is closed already stays as it is. Items without an
/// answer return to the pool; leases that are out stay live.
absl::StatusOr<AdvanceAnswer> AdvanceRound(Ledger& ledger, const AdvanceRequest& request);

struct RecordModelRequest {
  std::int64_t round = 0;
  std::int64_t trained_on = 0;  ///< log sequence that the model is a function of
  std::string file = {};        ///< relative to the campaign's folder
  std::string checksum = {};
  std::string record = {};  ///< what is known of it, kept as it is
};

absl::StatusOr<std::int64_t> RecordModel(Ledger& ledger, const RecordModelRequest& request);

struct RetrainRequest {
  std::string by = {};          ///< who asks
  std::string request_id = {};  ///< takes effect once; empty: every request is a new one
};
/// Lets the next round that begins start from scratch, after a restart too.
absl::StatusOr<std::int64_t> RequestRetrain(Ledger& ledger, const RetrainRequest& request);

struct FindModelRequest {
  std::int64_t round = 0;  ///< 0: the latest
};
/// The last model that was trained for a round; NotFound where there is none.
absl::StatusOr<StoredModel> FindModel(Ledger& ledger, const FindModelRequest& request);

struct SettingsRequest {
  CampaignSettings settings = {};
  std::string by = {};          ///< who asks
  std::string request_id = {};  ///< takes effect once; empty: every request is a new one
};
struct SettingsAnswer {
  std::int64_t sequence = 0;
  bool repeated = false;  ///< the request took effect before
};
absl::StatusOr<SettingsAnswer> ChangeSettings(Ledger& ledger, const SettingsRequest& request);

struct LifeRequest {
  Life life = Life::kRunning;
  std::vector<Life> from = {};  ///< only if it is one of these; empty: by the table of transitions alone
  std::string reason = {};
  std::string by = {};          ///< who asks; empty: the daemon itself
  std::string request_id = {};  ///< takes effect once; empty: every request is a new one
};
/// Returns the sequence of the change; 0 if the campaign already is in that state. FailedPrecondition for a transition
/// that is not possible, see campaign_life.h.
absl::StatusOr<std::int64_t> ChangeLife(Ledger& ledger, const LifeRequest& request);

struct ItemRequest {
  std::string item = {};
  std::string by = {};  ///< who asks
  std::string reason = {};
  std::string request_id = {};  ///< takes effect once; empty: every request is a new one
};
/// Takes an item out of its round, visibly.
absl::StatusOr<std::int64_t> SetItemAside(Ledger& ledger, const ItemRequest& request);
/// Lets an item that was set aside, or is disputed although more votes are possible, be offered again.
absl::StatusOr<std::int64_t> ReturnItem(Ledger& ledger, const ItemRequest& request);

struct ResolveRequest {
  ItemRequest item = {};
  std::string value = {};
};
/// Decides an item regardless of its votes. It need not have been batched.
absl::StatusOr<std::int64_t> ResolveItem(Ledger& ledger, const ResolveRequest& request);

// Rows that join a campaign's pool while it runs.
//
// Run by the store like the lease rules. The rows lie in a folder of their own, written whole and made durable before
// the log tells of it: a folder that the log does not name is left over from something interrupted.

struct AppendRowsRequest {
  std::string by = {};  ///< who appends
  std::string request_id = {};
  std::string content = {};  ///< a checksum of what was sent, by which a repeat is known
  std::string folder = {};   ///< relative to the campaign's; not used where there are no rows
  std::int64_t rows = 0;
  std::string answer = {};  ///< to be given again to a repeat
};

/// What was answered to the same request before; nothing for a new one. AlreadyExists where its id was used for
/// something else.
absl::StatusOr<std::optional<std::string>> FindAppendAnswer(Ledger& ledger, const AppendRowsRequest& request);

/// Makes the rows part of the pool, and returns the answer: its own, or the stored one where the request is a repeat.
absl::StatusOr<std::string> AppendRows(Ledger& ledger, const AppendRowsRequest& request);

/// Asks for everything that has joined the pool.
struct AppendedSoFarRequest {};
absl::StatusOr<std::vector<AppendedRows>> AppendedSoFar(Ledger& ledger, const AppendedSoFarRequest& request);

}  // namespace fulcrum::storage
