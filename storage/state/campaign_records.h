// The records of a campaign's state: items with their slots and votes, leases, rounds, models.
//
// Plain values. Those in the state are changed by its tables only (item_table.h, lease_table.h, tables.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/clock.h"
#include "storage/state/campaign_settings.h"

namespace fulcrum::storage {

enum class ItemStatus {
  kInPool,    ///< may be batched; it may have votes from earlier rounds
  kOffered,   ///< in the open round and waiting for votes
  kLabeled,   ///< decided, by votes or by an imported label
  kDisputed,  ///< no decision, and no more votes to come
  kSetAside,  ///< attempts used up, or reported as bad
};
inline constexpr std::size_t kItemStatusCount = 5;
const char* ItemStatusName(ItemStatus status);

enum class SlotStatus { kOpen, kLeased, kAnswered, kClosed };
const char* SlotStatusName(SlotStatus status);

/// One of the answers that an item needs. Numbers are never reused within an item.
struct Slot {
  std::int64_t number = 0;
  SlotStatus status = SlotStatus::kOpen;
  std::int64_t round = 0;
  std::int64_t lease = 0;     ///< the live lease, or 0
  std::int64_t epoch = 0;     ///< of the latest lease; only grows
  std::int64_t attempts = 0;  ///< leases that expired or were declined
  std::int64_t passes = 0;    ///< times it was skipped as "not now"; slots with fewer are offered first

  bool operator==(const Slot&) const = default;
};

struct Vote {
  std::string annotator = {};
  std::string value = {};
  bool withdrawn = false;
  std::int64_t sequence = 0;  ///< of the event that gave it its value

  bool operator==(const Vote&) const = default;
};

struct Item {
  std::string id = {};
  ItemStatus status = ItemStatus::kInPool;
  std::string value = {};                     ///< the label, if labeled
  std::string reason = {};                    ///< why it was set aside or is disputed
  std::int64_t round = 0;                     ///< the last round it was batched in
  std::int64_t rank = 0;                      ///< in that batch
  double cost = 0;                            ///< of one label
  std::int64_t decided_sequence = 0;          ///< of the event that decided its label
  std::string imported = {};                  ///< an imported label or a decision, which no vote overrules
  std::vector<Vote> votes = {};               ///< at most one per annotator, withdrawn ones included
  std::vector<std::string> declined_by = {};  ///< annotators who skipped it as unsure or bad
  std::int64_t bad_reports = 0;
  std::vector<Slot> slots = {};  ///< of the open round, and older ones that are still leased
  std::int64_t next_slot = 0;
  std::int64_t first_sequence = 0;  ///< of the first event about it

  bool operator==(const Item&) const = default;
};

/// What an event did to the status of an item of a round.
struct StatusChange {
  std::int64_t round = 0;
  ItemStatus from = ItemStatus::kInPool;
  ItemStatus to = ItemStatus::kInPool;
};

struct Lease {
  std::int64_t id = 0;  ///< sequence of the event that granted it
  std::string item = {};
  std::int64_t slot = 0;
  std::int64_t epoch = 0;
  std::string annotator = {};
  std::int64_t round = 0;
  Time expires_at = {};
  double cost = 0;  ///< of its label, as it was when the lease was granted

  bool operator==(const Lease&) const = default;
};

struct Round {
  std::int64_t number = 0;
  bool open = true;
  Time started_at = {};
  Time closed_at = {};
  std::string reason = {};    ///< why it closed
  std::int64_t based_on = 0;  ///< log sequence that the batch is a function of
  std::string files = {};     ///< names of its files, one per line
  std::int64_t items = 0;
  std::int64_t labeled = 0;  ///< while it was open, like the next two
  std::int64_t disputed = 0;
  std::int64_t set_aside = 0;

  bool operator==(const Round&) const = default;
  std::int64_t settled() const { return labeled + disputed + set_aside; }
  RoundProgress progress() const {
    return {.started_at = started_at, .items = items, .labeled = labeled, .settled = settled()};
  }
};

struct StoredModel {
  std::int64_t sequence = 0;  ///< of the event that recorded it
  std::int64_t round = 0;
  std::int64_t trained_on = 0;  ///< log sequence that the model is a function of
  std::string file = {};
  std::string checksum = {};
  std::string record = {};  ///< what the trainer stored about it
  Time at = {};

  bool operator==(const StoredModel&) const = default;
};

/// Rows that were added to the pool after the campaign was created.
struct AppendedRows {
  std::int64_t sequence = 0;  ///< of the event that recorded them
  std::string folder = {};    ///< an imported pool, relative to the campaign's folder
  std::int64_t rows = 0;
};

struct Totals {
  std::int64_t labels = 0;  ///< submitted; later changes are free
  double cost = 0;
  std::int64_t late_labels = 0;
  std::int64_t imported = 0;
  std::int64_t skips = 0;
  std::int64_t expired_leases = 0;
};

// Why an annotator did not answer.

enum class SkipReason {
  kUnsure,   ///< another annotator should answer
  kBadItem,  ///< the item cannot be answered: broken, empty, of the wrong kind
  kNotNow,   ///< the same annotator may be asked again later
};

/// "unsure", "bad item", "not now"
const char* SkipReasonName(SkipReason reason);
absl::StatusOr<SkipReason> ParseSkipReason(absl::string_view name);

// What follows from the votes on an item: a label, more votes, or a dispute.

enum class VoteOutcome { kUndecided, kDecided, kDisputed };

struct VoteVerdict {
  VoteOutcome outcome = VoteOutcome::kUndecided;
  std::string value = {};         ///< if decided
  std::int64_t votes_wanted = 0;  ///< if undecided: how many more
};

struct Crowd;
struct Voices;

/// Withdrawn votes do not count. By majority, with `overlap` votes the first value decides if it leads by `margin`;
/// otherwise one more annotator is asked at a time, until there are `most_votes`. With Dawid-Skene see crowd.h; `crowd`
/// is null before the first estimate, `voice` empty if no classifier has said anything about the item; `again`: it had
/// votes before this round, and got none in it yet.
VoteVerdict JudgeVotes(std::span<const Vote> votes, const CampaignSettings& settings, const Crowd* crowd = nullptr,
                       std::span<const double> voice = {}, bool again = false);

// The life of a campaign: its states and the transitions between them.
//
//   from      to        when
//   created   running   it is started
//   created   done      it is stopped before it was started
//   running   paused    it is paused
//   running   done      a stopping rule is met, the pool is used up, or it is stopped
//   running   failed    an error that does not pass by itself
//   paused    running   it is resumed
//   paused    done      it is stopped
//   failed    running   it is started again
//   failed    done      it is stopped
//   done      running   its stopping rules were changed so that it goes on
//
// A state that is not in the table cannot follow. What a running campaign does at the moment (compute a round, wait for
// labels), and whether it is quarantined, broken or being deleted, is not part of its log: the daemon knows it.
// Stateless and thread-safe.

enum class Life { kCreated, kRunning, kPaused, kDone, kFailed };

/// "created", "running", ...: as it is in the log.
const char* LifeName(Life life);
/// DataLoss for a name that is none.
absl::StatusOr<Life> ParseLife(absl::string_view name);

/// Whether the table has this transition.
bool MayFollow(Life from, Life to);

}  // namespace fulcrum::storage
