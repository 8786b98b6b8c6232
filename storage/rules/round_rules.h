// Rules for rounds and for the life cycle of a campaign: batches, models, settings.
//
// Run by the store like the lease rules. These requests come from the daemon and from administrators. They are
// idempotent by their content (the number of a round, the new settings), so most need no request id.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/state/campaign_state.h"
#include "storage/state/crowd.h"
#include "storage/state/ledger.h"

namespace fulcrum::storage {

// What a batch holds besides new items: items that have votes already.
//
// No vote is lost: an item whose round ended before its votes decided it is in the next batch. And a label in doubt is
// asked about again if another vote on it is expected to say more than the first vote on a new item. Pure functions of
// the state.

struct BatchedItem {
  std::string item = {};
  double cost = 0;  ///< of one label
};

/// Items that have votes of earlier rounds, which do not decide them, in the order in which they were batched: the next
/// batch begins with them. Those that a stream brought are not among them.
std::vector<BatchedItem> VotedItems(const CampaignState& state);

/// Items to be asked about again instead of as many new ones, at most `most`, the most informative vote first: labeled
/// by votes, not sure enough by what is known of the annotators and what the classifier says now, with fewer votes than
/// they may have, and with somebody to ask. The measure is the expected reduction of doubt (consensus.h) by a vote of
/// the usual accuracy; it must be above the mean of that for the new items, of which the classifier speaks too. Only
/// with adaptive overlap.
std::vector<BatchedItem> DoubtfulItems(const CampaignState& state, const Voices& voices,
                                       const std::vector<std::string>& new_items, std::size_t most);

struct CommitBatchRequest {
  std::int64_t round = 0;               ///< one more than the last
  std::int64_t based_on = 0;            ///< log sequence that the batch is a function of
  std::vector<BatchedItem> items = {};  ///< best first
  std::vector<BatchedItem> again = {};  ///< labeled by votes, and to be asked about again; before the new ones
  std::int64_t places = 0;              ///< for items that have votes, which come first; 0: for all of them
  std::vector<std::string> files = {};  ///< of the round, relative to the campaign's folder
  Voices voices = {};                   ///< what the classifier says from now on; without any item: what it said before
  bool only_if_running = false;         ///< Aborted if the campaign was paused or ended meanwhile
};

struct CommitBatchAnswer {
  std::int64_t sequence = 0;
  bool repeated = false;  ///< this batch was committed before
};

/// Opens a round with these items, and before them those that have votes and those that a stream brought, if they still
/// need answers. FailedPrecondition if one is open; Aborted if an item is not in the pool (or labeled by votes)
/// any more, or if nothing is left to batch; AlreadyExists if the round was committed with other items.
absl::StatusOr<CommitBatchAnswer> CommitBatch(Ledger& ledger, const CommitBatchRequest& request);

struct AdvanceRequest {
  std::int64_t round = 0;
  std::string forced = {};  ///< a reason to close it regardless of the policy
};

struct AdvanceAnswer {
  bool closed = false;
  std::string reason = {};              ///< why it closed
  std::optional<Time> look_again = {};  ///< if it is open: when it may be closed by time
};

/// Closes a round if its policy (or `forced`) says so; nothing happens to a closed round. Items that are not decided
/// return to the pool, except for those whom nobody else can answer (stuck_items.h); live leases stay live.
absl::StatusOr<AdvanceAnswer> AdvanceRound(Ledger& ledger, const AdvanceRequest& request);

struct RecordModelRequest {
  std::int64_t round = 0;
  std::int64_t trained_on = 0;  ///< log sequence that the model is a function of
  std::string file = {};        ///< relative to the campaign's folder
  std::string checksum = {};
  std::string record = {};  ///< what the trainer knows about it
};

absl::StatusOr<std::int64_t> RecordModel(Ledger& ledger, const RecordModelRequest& request);

struct RetrainRequest {
  std::string by = {};          ///< who asks
  std::string request_id = {};  ///< takes effect once; empty: every request is a new one
};
/// The next round that begins uses no earlier model, also after a restart.
absl::StatusOr<std::int64_t> RequestRetrain(Ledger& ledger, const RetrainRequest& request);

struct FindModelRequest {
  std::int64_t round = 0;  ///< 0: the latest
};
/// The last model that was trained for a round; NotFound if there is none.
absl::StatusOr<StoredModel> FindModel(Ledger& ledger, const FindModelRequest& request);

struct ListModelsRequest {};
/// All models, in the order in which they were recorded.
absl::StatusOr<std::vector<StoredModel>> ListModels(Ledger& ledger, const ListModelsRequest& request);

struct SettingsRequest {
  CampaignSettings settings = {};
};
/// Returns the sequence of the change.
absl::StatusOr<std::int64_t> ChangeSettings(Ledger& ledger, const SettingsRequest& request);

struct UpdateRequest {
  std::string asked = {};  ///< what the request says, by which a repeated one is recognized
  CampaignSettings settings = {};
  bool goes_on = false;         ///< a campaign that the daemon itself has ended runs again
  std::string by = {};          ///< who asks
  std::string request_id = {};  ///< takes effect once; empty: every request is a new one
};
struct UpdateAnswer {
  std::int64_t sequence = 0;
  bool continued = false;  ///< it was done, and runs again
};
/// Why a campaign runs again whose settings were updated.
inline constexpr char kContinued[] = "its stopping rules were changed";

/// What was done for the same request before; nothing for a new one. AlreadyExists if its id was used for another
/// request.
absl::StatusOr<std::optional<UpdateAnswer>> FindUpdate(Ledger& ledger, const UpdateRequest& request);
/// Changes the settings, and lets the campaign go on, at once or not at all.
absl::StatusOr<UpdateAnswer> UpdateSettings(Ledger& ledger, const UpdateRequest& request);

struct LifeRequest {
  Life life = Life::kRunning;
  std::vector<Life> from = {};  ///< only if it is one of these; empty: by the table of transitions alone
  std::string reason = {};
  std::string by = {};             ///< who asks; empty: the daemon itself
  std::string request_id = {};     ///< takes effect once; empty: every request is a new one
  std::string decided_under = {};  ///< Aborted if the specification is another one by now; empty: any
};
/// Returns the sequence of the change; 0 if the campaign already is in that state. FailedPrecondition for a transition
/// that is not possible, see campaign_records.h. At the end of a campaign votes are accepted as by AcceptVotes.
absl::StatusOr<std::int64_t> ChangeLife(Ledger& ledger, const LifeRequest& request);

struct ItemRequest {
  std::string item = {};
  std::string by = {};  ///< who asks
  std::string reason = {};
  std::string request_id = {};  ///< takes effect once; empty: every request is a new one
};
/// Sets an item aside: it is not offered any more.
absl::StatusOr<std::int64_t> SetItemAside(Ledger& ledger, const ItemRequest& request);
/// Returns an item that was set aside, or is disputed although more votes are possible, so that it is offered again.
absl::StatusOr<std::int64_t> ReturnItem(Ledger& ledger, const ItemRequest& request);

struct ResolveRequest {
  ItemRequest item = {};
  std::string value = {};
};
/// Decides an item regardless of its votes. It need not have been batched.
absl::StatusOr<std::int64_t> ResolveItem(Ledger& ledger, const ResolveRequest& request);

// Rows that are added to the pool of a running campaign.
//
// Run by the store like the lease rules. The rows are in a folder of their own, which is complete and synced before the
// log mentions it: other folders are left over from an interrupted request.

struct AppendRowsRequest {
  std::string by = {};  ///< who appends
  std::string request_id = {};
  std::string content = {};  ///< a checksum of what was sent, by which a repeated request is recognized
  std::string folder = {};   ///< relative to that of the campaign; not used without rows
  std::int64_t rows = 0;
  std::string answer = {};  ///< is returned again to a repeated request
};

/// What was answered to the same request before; nothing for a new one. AlreadyExists if its id was used for another
/// request.
absl::StatusOr<std::optional<std::string>> FindAppendAnswer(Ledger& ledger, const AppendRowsRequest& request);

/// Adds the rows to the pool, and returns the answer: that of the request, or the stored one if it is repeated.
absl::StatusOr<std::string> AppendRows(Ledger& ledger, const AppendRowsRequest& request);

/// All rows that were added to the pool.
struct AppendedSoFarRequest {};
absl::StatusOr<std::vector<AppendedRows>> AppendedSoFar(Ledger& ledger, const AppendedSoFarRequest& request);

}  // namespace fulcrum::storage
