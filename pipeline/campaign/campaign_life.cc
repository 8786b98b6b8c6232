// What administrators do to a campaign, and how it is described.

#include <google/protobuf/field_mask.pb.h>
#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "pipeline/campaign/campaign.h"
#include "pipeline/text/structured_log.h"
#include "stages/core/status_macros.h"
#include "storage/state/round_rules.h"
#include "storage/state/stuck_items.h"

namespace fulcrum::pipeline {
namespace {

v1::CampaignState StateOf(storage::Life life, bool selecting, bool quarantined) {
  switch (life) {
    case storage::Life::kCreated:
      return v1::CAMPAIGN_STATE_CREATED;
    case storage::Life::kPaused:
      return v1::CAMPAIGN_STATE_PAUSED;
    case storage::Life::kDone:
      return v1::CAMPAIGN_STATE_DONE;
    case storage::Life::kFailed:
      return v1::CAMPAIGN_STATE_FAILED;
    case storage::Life::kRunning:
      break;
  }
  if (quarantined) return v1::CAMPAIGN_STATE_QUARANTINED;
  return selecting ? v1::CAMPAIGN_STATE_RUNNING : v1::CAMPAIGN_STATE_WAITING;
}

std::int64_t CountOf(const storage::CampaignStatus& status, storage::ItemStatus of) {
  return status.items_by_status[static_cast<std::size_t>(of)];
}

/// Adds what a campaign waits for, in words.
class WaitingList {
 public:
  v1::WaitingFor& Add(v1::WaitingFor::Kind kind, std::int64_t count, std::string text) {
    v1::WaitingFor& reason = reasons_.emplace_back();
    reason.set_kind(kind);
    reason.set_count(count);
    reason.set_text(std::move(text));
    return reason;
  }
  void SetUntil(std::optional<storage::Time> until, v1::WaitingFor& reason) {
    if (!until) return;
    *reason.mutable_until() = google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(storage::ToMicros(*until));
    reason.set_text(absl::StrCat(reason.text(), " until ", storage::FormatUtc(*until).substr(0, 19), "Z"));
  }
  std::vector<v1::WaitingFor> Take() { return std::move(reasons_); }

 private:
  std::vector<v1::WaitingFor> reasons_;
};

std::string Tasks(std::int64_t count) {
  return absl::StrCat(count, count == 1 ? " task" : " tasks");
}

void AddLabeling(const storage::WaitingSummary& summary, WaitingList& list) {
  constexpr std::size_t kMostHolders = 20;
  for (std::size_t i = 0; i < summary.holders.size() && i < kMostHolders; ++i) {
    const storage::WaitingSummary::Holder& holder = summary.holders[i];
    v1::WaitingFor& reason = list.Add(v1::WaitingFor::KIND_LEASE, holder.leases,
                                      absl::StrCat(Tasks(holder.leases), " leased by '", holder.annotator, "'"));
    reason.set_annotator(holder.annotator);
    list.SetUntil(holder.first_expiry, reason);
  }
  if (summary.open_slots > 0) {
    v1::WaitingFor& reason =
        list.Add(v1::WaitingFor::KIND_WORKER, summary.open_slots, absl::StrCat(Tasks(summary.open_slots), " open"));
    if (summary.advance_at) list.SetUntil(summary.advance_at, reason);
  }
  if (summary.stuck_items > 0) {
    const std::string votes = summary.stuck_votes > 0 ? absl::StrCat(" (it has ", summary.stuck_votes, " votes)") : "";
    const std::string more =
        summary.stuck_items > 1 ? absl::StrCat(" and ", summary.stuck_items - 1, " others") : std::string();
    v1::WaitingFor& reason = list.Add(v1::WaitingFor::KIND_ANOTHER_ANNOTATOR, summary.stuck_items,
                                      absl::StrCat("item '", summary.stuck_item, "'", votes, more,
                                                   summary.stuck_items > 1 ? " need" : " needs", " another annotator"));
    reason.set_item_id(summary.stuck_item);
    list.SetUntil(summary.dispute_at, reason);
  }
}

}  // namespace

storage::Life Campaign::life() const {
  return store_->status()->life;
}

bool Campaign::offers_tasks() const {
  return life() == storage::Life::kRunning && !quarantined() && !closing();
}

bool Campaign::over() const {
  return life() == storage::Life::kDone || closing();
}

absl::Status Campaign::CheckItem(const std::string& item) const {
  if (pool_->now()->ids().Find(item)) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("the pool of campaign '", name_, "' has no example '", item, "'"));
}

v1::Campaign Campaign::Describe() const {
  const std::shared_ptr<const storage::CampaignStatus> status = store_->status();
  v1::Campaign campaign;
  campaign.set_name(name_);
  if (auto spec = ParseSpecificationText(plan()->settings.specification); spec.ok())
    *campaign.mutable_spec() = *std::move(spec);
  campaign.set_state_reason(status->life_reason);
  campaign.set_pool_rows(static_cast<std::int64_t>(pool_->now()->rows()));
  campaign.set_round(status->round);
  campaign.set_round_items(status->round_items);
  campaign.set_round_settled(status->round_settled);
  campaign.set_labels(status->totals.labels);
  campaign.set_imported_labels(status->totals.imported);
  campaign.set_live_leases(static_cast<std::int64_t>(status->live_leases));
  campaign.set_open_tasks(static_cast<std::int64_t>(status->open_slots));
  campaign.set_cost(status->totals.cost);
  v1::ItemCounts& items = *campaign.mutable_items();
  items.set_leased(static_cast<std::int64_t>(status->leased_items));
  items.set_open(CountOf(*status, storage::ItemStatus::kOffered) - items.leased());
  items.set_labeled(CountOf(*status, storage::ItemStatus::kLabeled));
  items.set_disputed(CountOf(*status, storage::ItemStatus::kDisputed));
  items.set_set_aside(CountOf(*status, storage::ItemStatus::kSetAside));
  items.set_unlabeled(campaign.pool_rows() - items.open() - items.leased() - items.labeled() - items.disputed() -
                      items.set_aside());
  campaign.set_sequence(status->last_sequence);
  const std::scoped_lock lock(mutex_);
  campaign.set_state(closing_ ? v1::CAMPAIGN_STATE_CLOSING : StateOf(status->life, selecting_, quarantined_));
  if (campaign.state() == v1::CAMPAIGN_STATE_QUARANTINED) {
    campaign.set_state_reason(absl::StrCat("the process died ", marker_->deaths(), " times in a row during round ",
                                           marker_->round(),
                                           "; its labels are safe, and no round is run until the "
                                           "campaign is started again"));
  } else if (status->life == storage::Life::kRunning && !retry_reason_.empty()) {
    campaign.set_state_reason(absl::StrCat("retrying: ", retry_reason_));
    v1::CampaignCondition& condition = *campaign.add_conditions();
    condition.set_reason(retry_reason_);
    condition.set_attempts(retry_attempts_);
    condition.mutable_retry_at()->set_seconds(std::chrono::system_clock::to_time_t(retry_at_));
  }
  if (accuracy_) campaign.set_accuracy(*accuracy_);
  return campaign;
}

v1::Campaign Campaign::DescribeFully() {
  v1::Campaign campaign = Describe();
  std::promise<std::vector<v1::WaitingFor>> described;
  DescribeWaiting([&](std::vector<v1::WaitingFor> reasons) { described.set_value(std::move(reasons)); });
  for (v1::WaitingFor& reason : described.get_future().get()) *campaign.add_waiting_for() = std::move(reason);
  return campaign;
}

void Campaign::DescribeWaiting(std::function<void(std::vector<v1::WaitingFor>)> done) {
  WaitingList list;
  const storage::Life now = life();
  bool computing = false;
  {
    const std::scoped_lock lock(mutex_);
    computing = selecting_;
    if (now == storage::Life::kRunning && !retry_reason_.empty()) {
      v1::WaitingFor& reason =
          list.Add(v1::WaitingFor::KIND_RETRY, retry_attempts_, absl::StrCat("a retry after: ", retry_reason_));
      reason.mutable_until()->set_seconds(std::chrono::system_clock::to_time_t(retry_at_));
    }
  }
  if (now == storage::Life::kDone || closing()) return done(list.Take());
  if (now != storage::Life::kRunning || quarantined()) {
    list.Add(v1::WaitingFor::KIND_ADMINISTRATOR, 1,
             now == storage::Life::kPaused ? "an administrator who resumes it" : "an administrator who starts it");
  }
  if (computing) {
    list.Add(v1::WaitingFor::KIND_ROUND, 1, absl::StrCat("round ", store_->status()->round + 1, " to be computed"));
  }
  store_->Start(storage::DescribeWaiting, {},
                [list = std::move(list), done = std::move(done),
                 now](const absl::StatusOr<storage::WaitingSummary>& summary) mutable {
                  if (summary.ok()) AddLabeling(*summary, list);
                  std::vector<v1::WaitingFor> reasons = list.Take();
                  // Between the end of one round and the start of the next.
                  if (reasons.empty() && now == storage::Life::kRunning) {
                    list = {};
                    list.Add(v1::WaitingFor::KIND_ROUND, 1, "the next round to begin");
                    reasons = list.Take();
                  }
                  done(std::move(reasons));
                });
}

void Campaign::LogLife(const storage::LifeRequest& request) const {
  const bool failed = request.life == storage::Life::kFailed;
  const bool started = request.life == storage::Life::kRunning;
  Log(failed ? LogLevel::kError : LogLevel::kInfo,
      absl::StrCat("campaign ", started ? "started" : storage::LifeName(request.life)),
      {{"campaign", name_},
       {"round", store_->status()->round},
       {"labels", store_->status()->totals.labels},
       {"by", request.by},
       {"reason", request.reason}});
}

absl::Status Campaign::ChangeLife(const storage::LifeRequest& request, const char* what) {
  const absl::StatusOr<std::int64_t> changed = store_->Run(storage::ChangeLife, request);
  if (absl::IsFailedPrecondition(changed.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat("campaign '", name_, "' is ", storage::LifeName(life()), " and cannot be ", what));
  }
  FULCRUM_RETURN_IF_ERROR(changed.status());
  if (*changed != 0) LogLife(request);
  PublishState();
  return absl::OkStatus();
}

absl::Status Campaign::EndRunning(storage::Life life, const std::string& reason) {
  const storage::LifeRequest request = {.life = life, .from = {storage::Life::kRunning}, .reason = reason};
  const absl::StatusOr<std::int64_t> changed = store_->Run(storage::ChangeLife, request);
  // An administrator was quicker.
  if (!absl::IsFailedPrecondition(changed.status())) FULCRUM_RETURN_IF_ERROR(changed.status());
  if (changed.ok() && *changed != 0) LogLife(request);
  PublishState();
  return absl::OkStatus();
}

absl::Status Campaign::LeaveQuarantine() {
  {
    const std::scoped_lock lock(mutex_);
    if (!quarantined_) return absl::OkStatus();
    FULCRUM_RETURN_IF_ERROR(marker_->Clear());
    quarantined_ = false;
  }
  Log(LogLevel::kInfo, "campaign released from quarantine", {{"campaign", name_}});
  Wake();
  if (surroundings_.on_change) surroundings_.on_change();
  PublishState();
  return absl::OkStatus();
}

absl::Status Campaign::Start(const ChangeOrder& order) {
  if (life() == storage::Life::kRunning) return LeaveQuarantine();
  return ChangeLife({.life = storage::Life::kRunning,
                     .from = {storage::Life::kCreated, storage::Life::kFailed},
                     .by = order.by,
                     .request_id = order.request_id},
                    "started");
}

absl::Status Campaign::Pause(const ChangeOrder& order) {
  // First the state: a round that is cancelled before would be run again.
  FULCRUM_RETURN_IF_ERROR(ChangeLife({.life = storage::Life::kPaused,
                                      .from = {storage::Life::kRunning},
                                      .by = order.by,
                                      .request_id = order.request_id},
                                     "paused"));
  // The request may be a repeat, and the campaign resumed since.
  if (life() == storage::Life::kPaused) CancelRound();
  return absl::OkStatus();
}

absl::Status Campaign::Resume(const ChangeOrder& order) {
  return ChangeLife({.life = storage::Life::kRunning,
                     .from = {storage::Life::kPaused},
                     .by = order.by,
                     .request_id = order.request_id},
                    "resumed");
}

absl::Status Campaign::Stop(const ChangeOrder& order) {
  FULCRUM_RETURN_IF_ERROR(ChangeLife(
      {.life = storage::Life::kDone, .reason = "it was stopped", .by = order.by, .request_id = order.request_id},
      "stopped"));
  if (life() == storage::Life::kDone) CancelRound();
  return absl::OkStatus();
}

absl::Status Campaign::Retrain(const ChangeOrder& order) {
  if (life() == storage::Life::kDone) {
    return absl::FailedPreconditionError(absl::StrCat("campaign '", name_, "' is done and cannot be trained again"));
  }
  return store_->Run(storage::RequestRetrain, {.by = order.by, .request_id = order.request_id}).status();
}

absl::Status Campaign::Update(const v1::CampaignSpec& spec, const google::protobuf::FieldMask& mask,
                              const ChangeOrder& order) {
  const std::scoped_lock updating(updating_);
  FULCRUM_ASSIGN_OR_RETURN(const v1::CampaignSpec before, ParseSpecificationText(plan()->settings.specification));
  FULCRUM_ASSIGN_OR_RETURN(const v1::CampaignSpec updated, UpdatedSpec(before, spec, mask));
  FULCRUM_ASSIGN_OR_RETURN(CampaignPlan plan, PlanCampaign(updated));
  FULCRUM_ASSIGN_OR_RETURN(const storage::SettingsAnswer answer,
                           store_->Run(storage::ChangeSettings,
                                       {.settings = plan.settings, .by = order.by, .request_id = order.request_id}));
  if (answer.repeated) return absl::OkStatus();
  {
    const std::scoped_lock lock(mutex_);
    plan_ = std::make_shared<const CampaignPlan>(std::move(plan));
  }
  const auto& paths = mask.paths();
  const bool rules_changed =
      std::any_of(paths.begin(), paths.end(), [](const auto& path) { return absl::StartsWith(path, "stop"); });
  const std::shared_ptr<const storage::CampaignStatus> status = store_->status();
  // One that somebody stopped stays stopped.
  if (rules_changed && status->life == storage::Life::kDone && status->life_by.empty()) {
    return ChangeLife({.life = storage::Life::kRunning, .reason = "its stopping rules were changed", .by = order.by},
                      "continued");
  }
  PublishState();
  Wake();
  return absl::OkStatus();
}

}  // namespace fulcrum::pipeline
