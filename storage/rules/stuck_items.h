// Items that wait for an answer that no annotator can give, and what a campaign waits for.
//
// An annotator answers an item at most once, so an item whose votes give no decision may run out of annotators. The
// known annotators are those who have answered or declined an item, or hold a lease, are not paused and have something
// left of their budget. Run by the store like the lease rules.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/clock.h"
#include "storage/state/ledger.h"

namespace fulcrum::storage {

absl::btree_set<std::string> KnownAnnotators(const CampaignState& state);

struct SettleStuckRequest {};
struct SettleStuckAnswer {
  std::int64_t disputed = 0;
  std::int64_t set_aside = 0;
};
/// Disputes the offered items that have as many votes as the overlap (with adaptive overlap at least two), if every
/// known annotator has answered or declined them; with votes of different worth the votes decide unless they tie. Sets
/// aside items without a vote that all known annotators, three or more, have declined. If
/// no vote, skip, lease or batch has come for the dispute time, also disputes the other offered items that have votes,
/// and sets aside those that every known annotator has declined. To be run when there is no lease: until then
/// another annotator may come.
absl::StatusOr<SettleStuckAnswer> SettleStuckItems(Ledger& ledger, const SettleStuckRequest& request);

struct AcceptVotesRequest {};
/// At the end of a campaign, when nobody will be asked any more: the votes of items that are not decided decide as they
/// are, unless classes are equally probable. Their labels weigh as much as they are probable. Only with votes of
/// different worth; with a majority fewer votes than are wanted decide nothing. Returns the number of items.
absl::StatusOr<std::int64_t> AcceptVotes(Ledger& ledger, const AcceptVotesRequest& request);

/// The same for an answer that arrives after the end; nothing happens before it.
absl::Status AcceptIfOver(Ledger& ledger, const std::string& item);

/// What an open round waits for.
struct WaitingSummary {
  struct Holder {
    std::string annotator = {};
    std::int64_t leases = 0;
    Time first_expiry = {};
  };
  std::vector<Holder> holders = {};     ///< by the time of their first expiry
  std::int64_t open_slots = 0;          ///< that a known annotator, or any, may take
  std::int64_t stuck_items = 0;         ///< that no known annotator may answer, among the first ten thousand open slots
  std::string stuck_item = {};          ///< one of them
  std::int64_t stuck_votes = 0;         ///< that it has
  std::optional<Time> dispute_at = {};  ///< when it is disputed or set aside, if nothing happens before
  std::optional<Time> advance_at = {};  ///< when time alone may close the round
  /// Why the annotator who asks gets none of the open slots: its own budget pays for none that it may answer.
  std::string own_budget = {};
};
struct WaitingRequest {
  std::string annotator = {};  ///< who asks; may be empty
};
absl::StatusOr<WaitingSummary> DescribeWaiting(Ledger& ledger, const WaitingRequest& request);

}  // namespace fulcrum::storage
