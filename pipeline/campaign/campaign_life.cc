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
#include "absl/strings/str_join.h"
#include "pipeline/campaign/campaign.h"
#include "pipeline/campaign/stored_text.h"
#include "pipeline/text/structured_log.h"
#include "stages/core/status_macros.h"
#include "storage/rules/model_rules.h"
#include "storage/rules/round_rules.h"
#include "storage/rules/stuck_items.h"

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

// Between retries of a step that failed for a reason that may pass.
constexpr std::chrono::milliseconds kLongestPause{60'000};

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

/// Who is waited for, since when, until when, and what happens then.
void AddModel(const storage::ModelTask& task, const ExternalModel& model, WaitingList& list) {
  const auto text = [](storage::Time time) { return absl::StrCat(storage::FormatUtc(time).substr(0, 19), "Z"); };
  const storage::Time until = task.since + model.timeout;
  std::string who = "no process has taken the task";
  if (task.lease != 0) {
    who = absl::StrCat("process '", task.process, "' has the task, its lease expires at ", text(task.expires_at));
  }
  v1::WaitingFor& reason =
      list.Add(v1::WaitingFor::KIND_MODEL, 1,
               absl::StrCat("the predictions of a model process for round ", task.round, ", since ", text(task.since),
                            "; ", who, "; at ", text(until),
                            model.builtin_fallback ? " the built-in classifier is used" : " the campaign fails"));
  reason.set_annotator(task.process);
  *reason.mutable_until() = google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(storage::ToMicros(until));
  *reason.mutable_since() = google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(storage::ToMicros(task.since));
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
  if (!summary.own_budget.empty()) {
    list.Add(v1::WaitingFor::KIND_BUDGET, 1, summary.own_budget);
  } else if (summary.open_slots > 0) {
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

bool Campaign::offers_model_task() const {
  const auto status = store_->status();
  return offers_tasks() && status->model_task && status->model_task->open() && status->model_task->lease == 0 &&
         published_task_.Find(status->model_task->id).ok();
}

bool Campaign::over() const {
  return life() == storage::Life::kDone || closing();
}

v1::Campaign Campaign::Describe() const {
  const std::shared_ptr<const storage::CampaignStatus> status = store_->status();
  v1::Campaign campaign;
  campaign.set_name(name_);
  if (auto spec = ParseSpecificationText(plan()->settings.specification); spec.ok())
    *campaign.mutable_spec() = *std::move(spec);
  campaign.set_state_reason(status->life_reason);
  campaign.set_state_by(status->life_by);
  campaign.set_pool_rows(PoolRows());
  DescribeStream(status->offered, campaign);
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
  if (std::string lost = lost_events(); !lost.empty()) campaign.add_conditions()->set_reason(std::move(lost));
  const std::scoped_lock lock(mutex_);
  campaign.set_state(closing_ ? v1::CAMPAIGN_STATE_CLOSING : StateOf(status->life, selecting_, quarantined_));
  if (campaign.state() == v1::CAMPAIGN_STATE_QUARANTINED) {
    campaign.set_state_reason(absl::StrCat("the process died ", marker_->deaths(), " times in a row during round ",
                                           marker_->round(),
                                           "; its labels are safe, and no round is run until the "
                                           "campaign is started again"));
  } else if (!retry_reason_.empty()) {
    if (status->life == storage::Life::kRunning) campaign.set_state_reason(absl::StrCat("retrying: ", retry_reason_));
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

void Campaign::DescribeWaiting(std::function<void(std::vector<v1::WaitingFor>)> done, const std::string& annotator) {
  WaitingList list;
  const storage::Life now = life();
  bool computing = false, queued = false;
  {
    const std::scoped_lock lock(mutex_);
    computing = selecting_;
    queued = queued_;
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
    const std::string job = round_->DescribeJob();
    list.Add(v1::WaitingFor::KIND_ROUND, 1,
             absl::StrCat("round ", store_->status()->round + 1, " to be computed", job.empty() ? "" : " ", job));
  }
  // Not under the mutex: others ask for room while they hold that of the budget.
  if (const auto holders =
          queued && services_.memory != nullptr ? services_.memory->WaitsFor(place_) : std::vector<std::string>();
      !holders.empty()) {
    list.Add(v1::WaitingFor::KIND_MEMORY, static_cast<std::int64_t>(holders.size()),
             absl::StrCat("memory for round ", store_->status()->round + 1, ", which campaign",
                          holders.size() == 1 ? "" : "s", " '", absl::StrJoin(holders, "', '"), "' ",
                          holders.size() == 1 ? "uses" : "use"));
  }
  const auto status = store_->status();
  const std::shared_ptr<const CampaignPlan> plan = this->plan();
  if (now == storage::Life::kRunning && plan->external && status->model_task && status->model_task->open()) {
    AddModel(*status->model_task, *plan->external, list);
  }
  store_->Start(storage::DescribeWaiting, {.annotator = annotator},
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

void Campaign::PublishState() {
  v1::CampaignEvent event;
  *event.mutable_campaign() = Describe();
  events_.Publish(std::move(event));
}

void Campaign::PublishLife(std::int64_t sequence, EventBroadcaster::Announcement announcement) {
  v1::CampaignEvent event;
  *event.mutable_campaign() = Describe();
  events_.PublishChange(std::move(event), sequence, std::move(announcement));
}

std::chrono::milliseconds Campaign::NoteRetry(const std::string& reason) {
  ++failed_steps_;
  const auto pause = std::min(kLongestPause, services_.retry_time * (1 << std::min(failed_steps_ - 1, 10)));
  Log(LogLevel::kWarning, "campaign retries",
      {{"campaign", name_},
       {"round", store_->status()->round},
       {"reason", reason},
       {"seconds", std::chrono::duration<double>(pause).count()}});
  ++retries_;
  {
    const std::scoped_lock lock(mutex_);
    retry_reason_ = reason;
    retry_attempts_ = failed_steps_;
    retry_at_ = std::chrono::system_clock::now() + pause;
  }
  PublishState();
  return pause;
}

absl::StatusOr<bool> Campaign::WaitsForModel(const storage::CampaignStatus& status) {
  const std::shared_ptr<const CampaignPlan> plan = this->plan();
  const auto& task = status.model_task;
  if (!plan->external || !task || task->round != status.round + 1 || !task->open()) return false;
  // After a restart the round publishes the task again.
  if (store_->Now() < task->since + plan->external->timeout) return published_task_.Find(task->id).ok();
  const std::string reason =
      absl::StrCat("no model process has returned predictions for round ", task->round, " within ",
                   plan->external->timeout.count() / 1000, " seconds (classifier.external.timeout)");
  if (!plan->external->builtin_fallback) {
    FULCRUM_RETURN_IF_ERROR(
        EndRunning(storage::Life::kFailed, absl::StrCat(reason, "; start one, then start the campaign")).status());
    return true;
  }
  FULCRUM_ASSIGN_OR_RETURN(const bool closed,
                           store_->Run(storage::CloseModelTask,
                                       {.round = task->round, .timeout = plan->external->timeout, .reason = reason}));
  if (closed) {
    Log(LogLevel::kWarning, "built-in classifier used",
        {{"campaign", name_}, {"round", task->round}, {"reason", reason}});
  }
  return !closed;
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
  EventBroadcaster::Announcement announcement = events_.Announce();
  const absl::StatusOr<std::int64_t> changed = store_->Run(storage::ChangeLife, request);
  if (absl::IsFailedPrecondition(changed.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat("campaign '", name_, "' is ", storage::LifeName(life()), " and cannot be ", what));
  }
  FULCRUM_RETURN_IF_ERROR(changed.status());
  if (*changed == 0) return absl::OkStatus();
  LogLife(request);
  PublishLife(*changed, std::move(announcement));
  RetryNow();
  return absl::OkStatus();
}

absl::StatusOr<bool> Campaign::EndRunning(storage::Life life, const std::string& reason,
                                          const std::string& decided_under) {
  const storage::LifeRequest request = {
      .life = life, .from = {storage::Life::kRunning}, .reason = reason, .decided_under = decided_under};
  EventBroadcaster::Announcement announcement = events_.Announce();
  const absl::StatusOr<std::int64_t> changed = store_->Run(storage::ChangeLife, request);
  // An administrator was quicker.
  const bool overtaken = absl::IsFailedPrecondition(changed.status()) || absl::IsAborted(changed.status());
  if (!overtaken) FULCRUM_RETURN_IF_ERROR(changed.status());
  if (changed.ok() && *changed != 0) {
    LogLife(request);
    PublishLife(*changed, std::move(announcement));
  }
  return !overtaken;
}

absl::Status Campaign::LeaveQuarantine(const std::string& by) {
  {
    const std::scoped_lock lock(mutex_);
    if (!quarantined_) return absl::OkStatus();
    FULCRUM_RETURN_IF_ERROR(marker_->Clear());
    quarantined_ = false;
    StartWatch();
  }
  Log(LogLevel::kInfo, "campaign released from quarantine", {{"campaign", name_}, {"by", by}});
  Wake();
  if (services_.on_change) services_.on_change();
  PublishState();
  return absl::OkStatus();
}

absl::Status Campaign::Start(const ChangeOrder& order) {
  if (life() == storage::Life::kRunning) return LeaveQuarantine(order.by);
  return ChangeLife({.life = storage::Life::kRunning,
                     .from = {storage::Life::kCreated, storage::Life::kFailed},
                     .reason = order.reason,
                     .by = order.by,
                     .request_id = order.request_id},
                    "started");
}

absl::Status Campaign::Pause(const ChangeOrder& order) {
  // First the state: a round that is cancelled before would be run again.
  FULCRUM_RETURN_IF_ERROR(ChangeLife({.life = storage::Life::kPaused,
                                      .from = {storage::Life::kRunning},
                                      .reason = order.reason,
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
                     .reason = order.reason,
                     .by = order.by,
                     .request_id = order.request_id},
                    "resumed");
}

absl::Status Campaign::Stop(const ChangeOrder& order) {
  FULCRUM_RETURN_IF_ERROR(ChangeLife({.life = storage::Life::kDone,
                                      .reason = order.reason.empty() ? "it was stopped" : order.reason,
                                      .by = order.by,
                                      .request_id = order.request_id},
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
  storage::UpdateRequest request{.asked = absl::StrCat(absl::StrJoin(mask.paths(), ","), "\n", StoredText(spec)),
                                 .by = order.by,
                                 .request_id = order.request_id};
  // A repeated request has had its effect, even if the update would not be possible any more.
  FULCRUM_ASSIGN_OR_RETURN(const auto repeated, store_->Run(storage::FindUpdate, request));
  if (repeated) return absl::OkStatus();
  FULCRUM_ASSIGN_OR_RETURN(const v1::CampaignSpec before, ParseSpecificationText(plan()->settings.specification));
  FULCRUM_ASSIGN_OR_RETURN(const v1::CampaignSpec updated, UpdatedSpec(before, spec, mask));
  MemoryBudgetShare* const memory = services_.memory;
  FULCRUM_ASSIGN_OR_RETURN(CampaignPlan plan, PlanCampaign(WithRoundMemory(updated, memory)));
  FULCRUM_RETURN_IF_ERROR(CheckLauncher(services_.launchers, plan));
  const std::size_t round_bytes = plan.round.memory_bytes;
  const bool resized = memory != nullptr && round_bytes != this->plan()->round.memory_bytes;
  if (resized) FULCRUM_RETURN_IF_ERROR(memory->CheckRound(name_, round_bytes, place_));
  const auto& paths = mask.paths();
  request.settings = plan.settings;
  request.goes_on =
      std::any_of(paths.begin(), paths.end(), [](const auto& path) { return absl::StartsWith(path, "stop"); });
  EventBroadcaster::Announcement announcement = events_.Announce();
  FULCRUM_ASSIGN_OR_RETURN(const storage::UpdateAnswer answer, store_->Run(storage::UpdateSettings, request));
  {
    const std::scoped_lock lock(mutex_);
    plan_ = std::make_shared<const CampaignPlan>(std::move(plan));
  }
  if (resized) memory->SetRound(round_bytes, place_);
  if (answer.continued) LogLife({.life = storage::Life::kRunning, .reason = storage::kContinued, .by = order.by});
  PublishLife(answer.sequence, std::move(announcement));
  RetryNow();
  return absl::OkStatus();
}

}  // namespace fulcrum::pipeline
