#include "storage/state/ledger.h"

#include <algorithm>
#include <utility>

#include "stages/core/status_macros.h"

namespace fulcrum::storage {

absl::StatusOr<CampaignState> ReplayLog(EventLog& log, std::int64_t last) {
  CampaignState state;
  FULCRUM_RETURN_IF_ERROR(log.Visit(1, last, [&](const Event& event) { return state.Apply(event); }));
  return state;
}

Ledger::Ledger(EventLog log, const Clock& clock) : log_(std::move(log)), clock_(&clock) {}

absl::StatusOr<Ledger> Ledger::Open(SqliteDatabase& database, const Clock& clock, std::int64_t changes_after) {
  FULCRUM_ASSIGN_OR_RETURN(EventLog log, EventLog::Open(database));
  Ledger ledger(std::move(log), clock);
  ledger.changes_after_ = changes_after;
  FULCRUM_RETURN_IF_ERROR(ledger.Reload());
  return ledger;
}

absl::Status Ledger::Reload() {
  FULCRUM_ASSIGN_OR_RETURN(state_, ReplayLog(log_, changes_after_));
  state_.ForgetChanges();
  FULCRUM_RETURN_IF_ERROR(
      log_.Visit(changes_after_ + 1, kEndOfLog, [&](const Event& event) { return state_.Apply(event); }));
  broken_ = false;
  return absl::OkStatus();
}

void Ledger::TablesAreUpToDate() {
  changes_after_ = state_.last_sequence();
  state_.ForgetChanges();
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

}  // namespace fulcrum::storage
