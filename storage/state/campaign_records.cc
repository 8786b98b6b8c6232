#include "storage/state/campaign_records.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "storage/state/crowd.h"

namespace fulcrum::storage {

const char* ItemStatusName(ItemStatus status) {
  switch (status) {
    case ItemStatus::kInPool:
      return "in pool";
    case ItemStatus::kOffered:
      return "offered";
    case ItemStatus::kLabeled:
      return "labeled";
    case ItemStatus::kDisputed:
      return "disputed";
    case ItemStatus::kSetAside:
      return "set aside";
  }
  return "unknown";
}

const char* SlotStatusName(SlotStatus status) {
  switch (status) {
    case SlotStatus::kOpen:
      return "open";
    case SlotStatus::kLeased:
      return "leased";
    case SlotStatus::kAnswered:
      return "answered";
    case SlotStatus::kClosed:
      return "closed";
  }
  return "unknown";
}

const char* SkipReasonName(SkipReason reason) {
  switch (reason) {
    case SkipReason::kUnsure:
      return "unsure";
    case SkipReason::kBadItem:
      return "bad item";
    case SkipReason::kNotNow:
      return "not now";
  }
  return "unknown";
}

absl::StatusOr<SkipReason> ParseSkipReason(absl::string_view name) {
  for (const SkipReason reason : {SkipReason::kUnsure, SkipReason::kBadItem, SkipReason::kNotNow}) {
    if (name == SkipReasonName(reason)) return reason;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", name, "' is no reason to skip; it must be 'unsure', 'bad item' or 'not now'"));
}

namespace {

struct Tally {
  const std::string* value;
  std::int64_t count;
};
// An item has a handful of votes: a linear search costs less than any map.
using Tallies = absl::InlinedVector<Tally, 4>;

Tallies CountVotes(std::span<const Vote> votes) {
  Tallies tallies;
  for (const Vote& vote : votes) {
    if (vote.withdrawn) continue;
    const auto same = [&](const Tally& tally) { return *tally.value == vote.value; };
    const auto found = std::find_if(tallies.begin(), tallies.end(), same);
    if (found == tallies.end()) {
      tallies.push_back({&vote.value, 1});
    } else {
      ++found->count;
    }
  }
  return tallies;
}

}  // namespace

VoteVerdict JudgeVotes(std::span<const Vote> votes, const CampaignSettings& settings, const Crowd* crowd,
                       std::span<const double> voice, bool again) {
  if (settings.consensus == CampaignSettings::Consensus::kDawidSkene) {
    return JudgeByCrowd(votes, settings, crowd, voice, again);
  }
  Tally leader = {nullptr, 0};
  std::int64_t second = 0;
  std::int64_t total = 0;
  for (const Tally& tally : CountVotes(votes)) {
    total += tally.count;
    second = std::max(second, std::min(leader.count, tally.count));
    if (tally.count > leader.count) leader = tally;
  }
  if (total < settings.overlap) return {.votes_wanted = settings.overlap - total};
  const bool decided = leader.value != nullptr && leader.count - second >= settings.margin;
  if (decided) return {.outcome = VoteOutcome::kDecided, .value = *leader.value};
  if (total >= settings.most_votes) return {.outcome = VoteOutcome::kDisputed};
  return {.votes_wanted = 1};
}

namespace {

constexpr std::array<std::pair<Life, Life>, 10> kTransitions = {{
    {Life::kCreated, Life::kRunning},
    {Life::kCreated, Life::kDone},
    {Life::kRunning, Life::kPaused},
    {Life::kRunning, Life::kDone},
    {Life::kRunning, Life::kFailed},
    {Life::kPaused, Life::kRunning},
    {Life::kPaused, Life::kDone},
    {Life::kFailed, Life::kRunning},
    {Life::kFailed, Life::kDone},
    {Life::kDone, Life::kRunning},
}};

constexpr std::array<Life, 5> kAll = {Life::kCreated, Life::kRunning, Life::kPaused, Life::kDone, Life::kFailed};

}  // namespace

const char* LifeName(Life life) {
  switch (life) {
    case Life::kCreated:
      return "created";
    case Life::kRunning:
      return "running";
    case Life::kPaused:
      return "paused";
    case Life::kDone:
      return "done";
    case Life::kFailed:
      return "failed";
  }
  return "unknown";
}

absl::StatusOr<Life> ParseLife(absl::string_view name) {
  for (const Life life : kAll) {
    if (name == LifeName(life)) return life;
  }
  return absl::DataLossError(absl::StrCat("there is no state '", name.substr(0, 100), "' of a campaign"));
}

bool MayFollow(Life from, Life to) {
  return std::find(kTransitions.begin(), kTransitions.end(), std::pair(from, to)) != kTransitions.end();
}

}  // namespace fulcrum::storage
