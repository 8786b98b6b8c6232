#include "storage/state/ledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"
#include "storage/state/crowd.h"

namespace fulcrum::storage {
namespace {

// So many rows are written in a few milliseconds; no commit runs meanwhile.
constexpr std::size_t kItemsAtOnce = 512;
constexpr std::size_t kRequestsAtOnce = 1024;
constexpr std::int64_t kEventsAtOnce = 2048;

}  // namespace

absl::StatusOr<CampaignState> LoadCheckpoint(Checkpoint& checkpoint, EventLog& log) {
  const absl::Status loaded = checkpoint.Load();
  if (!loaded.ok() && !absl::IsDataLoss(loaded)) return loaded;
  const LogPosition position = checkpoint.position();
  if (loaded.ok() && position.sequence > 0) {
    FULCRUM_ASSIGN_OR_RETURN(const std::int64_t last, log.LastSequence());
    if (position.sequence > last) {
      return absl::DataLossError(absl::StrCat("the log ends with event ", last,
                                              ", but the derived tables include event ", position.sequence, ": ",
                                              position.sequence - last, " events are missing. Restore a backup"));
    }
    FULCRUM_ASSIGN_OR_RETURN(const auto chain, log.StoredChain(position.sequence));
    absl::StatusOr<CampaignState> state = CampaignState::FromCheckpoint(checkpoint);
    if (state.ok() && chain == position.chain) return state;
  } else if (loaded.ok() && checkpoint.figures().empty()) {
    return CampaignState();
  }
  checkpoint.Ignore();
  return CampaignState();
}

absl::Status ReplayLog(EventLog& log, CampaignState& state, std::int64_t last) {
  return log.Visit(state.last_sequence() + 1, last, [&](const Event& event) { return state.Apply(event); });
}

absl::StatusOr<LogPosition> PositionOf(const CampaignState& state, EventLog& log) {
  if (log.last_appended().sequence == state.last_sequence()) return log.last_appended();
  FULCRUM_ASSIGN_OR_RETURN(const auto chain, log.StoredChain(state.last_sequence()));
  if (chain) return LogPosition{state.last_sequence(), *chain};
  return absl::DataLossError(absl::StrCat("event ", state.last_sequence(), " of the log has no checksum"));
}

Ledger::Ledger(EventLog log, Checkpoint& checkpoint, const Clock& clock)
    : log_(std::move(log)), checkpoint_(&checkpoint), clock_(&clock) {}

absl::StatusOr<Ledger> Ledger::Open(SqliteDatabase& database, Checkpoint& checkpoint, const Clock& clock) {
  FULCRUM_ASSIGN_OR_RETURN(EventLog log, EventLog::Open(database));
  Ledger ledger(std::move(log), checkpoint, clock);
  FULCRUM_RETURN_IF_ERROR(ledger.Load());
  return ledger;
}

absl::Status Ledger::Load() {
  FULCRUM_ASSIGN_OR_RETURN(state_, LoadCheckpoint(*checkpoint_, log_));
  const absl::Status replayed = ReplayLog(log_, state_);
  const bool from_log_alone = checkpoint_->position().sequence == 0;
  // A row that is damaged or missing shows when an event is applied to it.
  if (from_log_alone || (replayed.ok() && checkpoint_->damage().ok())) return replayed;
  checkpoint_->Ignore();
  state_ = CampaignState();
  return ReplayLog(log_, state_);
}

absl::Status Ledger::RepairState() {
  if (checkpoint_->damage().ok()) return absl::OkStatus();
  checkpoint_->Ignore();
  state_ = CampaignState();
  return ReplayLog(log_, state_);
}

Time Ledger::Now() const {
  return std::max(clock_->Now(), state_.last_time());
}

absl::StatusOr<std::int64_t> Ledger::Append(Event event) {
  return AppendAt(Now(), std::move(event));
}

absl::StatusOr<std::int64_t> Ledger::AppendOpening() {
  const Time now = clock_->Now();
  return AppendAt(now, {.body = StoreOpened{now - state_.last_time()}});
}

absl::StatusOr<std::int64_t> Ledger::AppendAt(Time at, Event event) {
  event.sequence = state_.last_sequence() + 1;
  event.at = at;
  broken_ = true;
  EventRow row = EncodeEvent(std::move(event));
  FULCRUM_RETURN_IF_ERROR(log_.Append(row));
  // What is applied is what a replay will read.
  FULCRUM_ASSIGN_OR_RETURN(const Event written, DecodeEvent(std::move(row)));
  FULCRUM_RETURN_IF_ERROR(state_.Apply(written));
  broken_ = false;
  return written.sequence;
}

void Ledger::Begin() {
  state_.Begin();
}

void Ledger::Accept() {
  state_.Accept();
}

void Ledger::RollBack() {
  state_.RollBack();
  broken_ = false;
}

absl::StatusOr<bool> Ledger::WriteCheckpoint() {
  if (checkpoint_->position().sequence == state_.last_sequence()) return false;
  RequestTable& requests = state_.changed_requests();
  Checkpoint::Group group{
      .items = state_.changed_items().Take(kItemsAtOnce),
      .requests = requests.TakeNew(kRequestsAtOnce),
      .history_through = std::min(checkpoint_->history_through() + kEventsAtOnce, state_.last_sequence())};
  const bool last =
      state_.changed_items().empty() && !requests.has_new() && group.history_through == state_.last_sequence();
  absl::Status status;
  if (last) {
    const absl::StatusOr<LogPosition> position = PositionOf(state_, log_);
    if (position.ok()) group.position = *position;
    status = position.status();
  }
  if (status.ok()) status = checkpoint_->Write(state_, group);
  if (!status.ok()) {
    for (const Item* item : group.items) state_.changed_items().Add(*item);
    requests.PutBack(group.requests);
    return status;
  }
  if (last) state_.ForgetChanges();
  return !last;
}

namespace {

std::optional<double> ConfidenceOf(const CampaignState& state, const Item& item) {
  const std::optional<Opinion> opinion = OpinionOf(item.votes, state.settings(), state.crowd(), state.VoiceOn(item.id));
  return opinion ? std::optional(opinion->confidence) : std::nullopt;
}

}  // namespace

bool Matches(const Item& item, const std::string& search) {
  if (search.empty()) return true;
  const auto contains = [&](const std::string& text) { return absl::StrContains(absl::AsciiStrToLower(text), search); };
  return contains(item.id) || contains(item.value) || contains(item.reason) ||
         std::any_of(item.votes.begin(), item.votes.end(), [&](const Vote& vote) { return contains(vote.annotator); });
}

absl::StatusOr<std::vector<FoundItem>> ListItems(Ledger& ledger, const ListItemsRequest& request) {
  const ItemTable& items = ledger.state().items();
  std::vector<FoundItem> found;
  for (const ItemStatus status : request.statuses) {
    // Only offered items are leased.
    if (request.leased == true && status != ItemStatus::kOffered) continue;
    std::size_t taken = 0;
    items.VisitStatus(status, request.after, [&](const Item& item) {
      const bool leased = ItemSet::IsLeased(item);
      if (request.leased.value_or(leased) != leased || !Matches(item, request.search)) return true;
      found.push_back({item, leased, ConfidenceOf(ledger.state(), item)});
      return ++taken < request.most;
    });
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.item.id < b.item.id; });
  if (found.size() > request.most) found.resize(request.most);
  return found;
}

absl::StatusOr<std::vector<FoundItem>> FindItems(Ledger& ledger, const FindItemsRequest& request) {
  const ItemTable& items = ledger.state().items();
  std::vector<FoundItem> found;
  found.reserve(request.ids.size());
  for (const std::string& id : request.ids) {
    const Item* const item = items.Find(id);
    if (item != nullptr) {
      found.push_back({*item, ItemSet::IsLeased(*item), ConfidenceOf(ledger.state(), *item)});
    } else {
      found.emplace_back().item.id = id;
    }
  }
  return found;
}

}  // namespace fulcrum::storage
