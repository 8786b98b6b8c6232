#include "pipeline/campaign/campaign.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <numeric>
#include <span>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "pipeline/campaign/campaign_registry.h"
#include "pipeline/campaign/crash_marker.h"
#include "pipeline/campaign/pool/campaign_pool.h"
#include "pipeline/campaign/stored_text.h"
#include "pipeline/round/memory_budget.h"
#include "pipeline/text/status.h"
#include "pipeline/text/structured_log.h"
#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"
#include "storage/rules/round_rules.h"
#include "storage/rules/stuck_items.h"

namespace fulcrum::pipeline {
namespace {

// Leases end and rounds time out within this of their time; labels wake the thread at once.
constexpr std::chrono::milliseconds kTick{500};
// A round that has too little memory so often has failed: it may always be too little. A full disk or queue is not, and
// is waited for.
constexpr int kMostMemoryFailures = 6;

/// Whether the campaign's thread has something to do at once; it finds by itself what becomes due by time alone.
bool HasToAct(const storage::CampaignStatus& status) {
  return status.life == storage::Life::kRunning && (!status.round_open || status.round_due);
}

/// Busy, a full disk, a lock held elsewhere, out of memory for now.
bool IsTransient(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsUnavailable(status) || absl::IsAborted(status);
}

}  // namespace

Campaign::Campaign(CampaignPlan plan, CampaignServices services)
    : name_(plan.name), services_(std::move(services)), plan_(std::make_shared<const CampaignPlan>(std::move(plan))) {}

v1::CampaignSpec Campaign::WithRoundMemory(v1::CampaignSpec spec, const MemoryBudgetShare* memory) {
  const std::size_t usual = memory == nullptr ? 0 : memory->UsualRoundBytes();
  if (usual > 0 && !spec.selection().has_memory_mib()) {
    spec.mutable_selection()->set_memory_mib(static_cast<std::int64_t>(usual >> 20));
  }
  return spec;
}

std::shared_ptr<const CampaignPlan> Campaign::plan() const {
  const std::scoped_lock lock(mutex_);
  return plan_;
}

absl::StatusOr<CampaignPlan> Campaign::PlanOf(const std::string& specification) const {
  FULCRUM_ASSIGN_OR_RETURN(const v1::CampaignSpec spec, ParseSpecificationText(specification));
  return PlanCampaign(WithRoundMemory(spec, services_.memory));
}

Campaign::~Campaign() {
  // It appends, for which it needs the store.
  watch_.reset();
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  // The store's last commits still call OnCommit.
  round_.reset();
  store_.reset();
  // Before services_ is destroyed, which it refers to.
  place_ = {};
}

void Campaign::RequestStop() {
  thread_.request_stop();
  events_.Close();
  const std::scoped_lock lock(mutex_);
  if (watch_ != nullptr) watch_->RequestStop();
}

void Campaign::CancelRound() {
  const std::scoped_lock lock(mutex_);
  if (selecting_ || queued_) round_stop_.request_stop();
}

void Campaign::BeginClosing() {
  closing_ = true;
  CancelRound();
  events_.Close();
}

void Campaign::CancelClosing() {
  closing_ = false;
  events_.Reopen();
}

bool Campaign::WaitForRound(std::chrono::steady_clock::time_point until) {
  std::unique_lock lock(mutex_);
  return round_ended_.wait_until(lock, until, [this] { return !selecting_ && !queued_; });
}

storage::StoreOptions Campaign::StoreOptionsHere() {
  storage::StoreOptions options;
  options.clock = services_.clock;
  options.on_commit = [this](const storage::CampaignStatus& status) { OnCommit(status); };
  options.queue = services_.queue;
  options.on_fatal = services_.on_fatal;
  options.on_commit_time = services_.on_commit_time;
  return options;
}

absl::StatusOr<std::shared_ptr<Campaign>> Campaign::Create(const std::string& folder, const v1::CampaignSpec& spec,
                                                           CampaignServices services, const ImportControl& control) {
  FULCRUM_ASSIGN_OR_RETURN(const CampaignPlan plan, PlanCampaign(WithRoundMemory(spec, services.memory)));
  FULCRUM_RETURN_IF_ERROR(MakeCampaignFolder(folder, plan, services.pools, control));
  auto campaign = OpenFolder(folder, std::move(services), /*exists=*/false);
  // A pool that there is no memory for leaves no campaign behind.
  if (std::error_code ignored; !campaign.ok()) std::filesystem::remove_all(folder, ignored);
  return campaign;
}

absl::StatusOr<std::shared_ptr<Campaign>> Campaign::OpenFolder(const std::string& folder, CampaignServices services,
                                                               bool exists) {
  FULCRUM_ASSIGN_OR_RETURN(const auto reader, storage::CampaignReader::Open(folder));
  FULCRUM_ASSIGN_OR_RETURN(const storage::CampaignSettings settings, reader->Settings());
  FULCRUM_ASSIGN_OR_RETURN(const v1::CampaignSpec spec, ParseSpecificationText(settings.specification));
  FULCRUM_ASSIGN_OR_RETURN(CampaignPlan plan, PlanCampaign(WithRoundMemory(spec, services.memory)));
  std::shared_ptr<Campaign> campaign(new Campaign(std::move(plan), std::move(services)));
  FULCRUM_RETURN_IF_ERROR(campaign->LoadPool(storage::CampaignFolder(folder), exists));
  FULCRUM_ASSIGN_OR_RETURN(auto store, storage::CampaignStore::Open(folder, campaign->StoreOptionsHere()));
  FULCRUM_RETURN_IF_ERROR(campaign->Begin(std::move(store)));
  return campaign;
}

absl::Status Campaign::LoadPool(const storage::CampaignFolder& folder, bool exists) {
  FULCRUM_RETURN_IF_ERROR(ImportOwnPool(*plan_, services_.pools, folder, {.stop = StopScope::Token()}));
  FULCRUM_ASSIGN_OR_RETURN(auto pool, CampaignPool::Load(*plan_, folder, UsableMemoryBytes()));
  if (services_.memory != nullptr) {
    FULCRUM_ASSIGN_OR_RETURN(place_, services_.memory->Admit({.campaign = name_,
                                                              .pool_bytes = pool->bytes(),
                                                              .round_bytes = plan_->round.memory_bytes,
                                                              .exists = exists,
                                                              .on_wanted = [this] { OnRoomWanted(); }}));
  }
  pool_ = std::make_unique<GrowingPool>(std::move(pool));
  return absl::OkStatus();
}

absl::StatusOr<ModelHistory> Campaign::RecallModels() {
  FULCRUM_ASSIGN_OR_RETURN(const auto models, store_->Run(storage::ListModels, {}));
  for (const storage::StoredModel& stored : models) {
    v1::CampaignEvent event;
    *event.mutable_time() = google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(storage::ToMicros(stored.at));
    if (stored.record.empty() || !ParseStoredText(stored.record, *event.mutable_model()).ok()) continue;
    event.set_sequence(stored.sequence);
    if (event.model().has_accuracy()) accuracy_ = event.model().accuracy();
    trained_at_ = stored.trained_on;
    events_.Remember(std::move(event));
  }
  return ModelHistory::Read(models);
}

absl::Status Campaign::Begin(std::unique_ptr<storage::CampaignStore> store) {
  store_ = std::move(store);
  events_.SetLog([this] { return store_->status()->last_sequence; });
  FULCRUM_ASSIGN_OR_RETURN(marker_, RoundMarker::Open(store_->folder().path()));
  quarantined_ = marker_->quarantined();
  if (quarantined_) {
    Log(LogLevel::kError, "campaign quarantined",
        {{"campaign", name_}, {"round", marker_->round()}, {"deaths", marker_->deaths()}});
  }
  LogFindings();
  FULCRUM_ASSIGN_OR_RETURN(reader_, storage::CampaignReader::Open(store_->folder().path()));
  FULCRUM_ASSIGN_OR_RETURN(ModelHistory history, RecallModels());
  FULCRUM_ASSIGN_OR_RETURN(const auto appended, store_->Run(storage::AppendedSoFar, {}));
  FULCRUM_ASSIGN_OR_RETURN(const auto pool, pool_->Follow(appended, store_->folder()));
  FULCRUM_RETURN_IF_ERROR(Admit(*pool, pool->rows()));
  appender_ = std::make_unique<PoolAppender>(
      *pool_, *store_, [this](const CampaignPool& grown, std::size_t first_new) { return Admit(grown, first_new); });
  FULCRUM_RETURN_IF_ERROR(OpenStream());
  models_ = std::make_unique<ModelCache>(*store_);
  round_ = std::make_unique<CampaignRound>(
      CampaignRound::Parts{.plan_of = [this](const std::string& specification) { return PlanOf(specification); },
                           .pool = *pool_,
                           .store = *store_,
                           .reader = *reader_,
                           .events = events_,
                           .published_task = published_task_,
                           .launchers = services_.launchers},
      std::move(history));
  thread_ = std::jthread([this](const std::stop_token& stop) { Loop(stop); });
  const std::scoped_lock lock(mutex_);
  if (!quarantined_) StartWatch();
  return absl::OkStatus();
}

void Campaign::OnCommit(const storage::CampaignStatus& status) {
  // Most commits are labels of a round that continues; the thread has nothing to do for them.
  if (HasToAct(status)) Wake();
  if (services_.on_change) services_.on_change();
  if (std::exchange(published_labels_, status.totals.labels) == status.totals.labels) return;
  v1::CampaignEvent event;
  event.mutable_labels()->set_labels(status.totals.labels);
  event.mutable_labels()->set_round_settled(status.round_settled);
  event.mutable_labels()->set_round_items(status.round_items);
  event.mutable_labels()->set_labeled_items(
      status.items_by_status[static_cast<std::size_t>(storage::ItemStatus::kLabeled)]);
  events_.Publish(std::move(event));
}

void Campaign::Wake() {
  {
    const std::scoped_lock lock(mutex_);
    wake_ = true;
  }
  woken_.notify_all();
}

void Campaign::RetryNow() {
  {
    const std::scoped_lock lock(mutex_);
    wake_ = retry_now_ = true;
  }
  woken_.notify_all();
}

void Campaign::OnRoomWanted() {
  const std::scoped_lock lock(mutex_);
  room_wanted_ = wake_ = true;
  woken_.notify_all();
}

void Campaign::MakeRoom() {
  {
    const std::scoped_lock lock(mutex_);
    if (!std::exchange(room_wanted_, false)) return;
  }
  round_->Forget();
  services_.memory->GiveBack(place_);
}

void Campaign::Loop(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    MakeRoom();
    const absl::StatusOr<bool> more = GuardedStep(stop);
    const std::chrono::milliseconds pause = more.ok() ? kTick : EndStep(more.status(), stop);
    bool retried = false;
    {
      std::unique_lock lock(mutex_);
      if (more.ok()) {
        failed_steps_ = memory_failures_ = 0;
        retried = !std::exchange(retry_reason_, {}).empty();
      }
    }
    // The condition is over.
    if (retried) PublishState();
    if (more.ok() && *more) continue;
    std::unique_lock lock(mutex_);
    // A step that is retried waits its time whatever happens meanwhile, unless an administrator changes something.
    woken_.wait_for(lock, stop, pause, [&] { return (wake_ && more.ok()) || retry_now_; });
    retry_now_ = false;
    wake_ = false;
  }
}

absl::StatusOr<bool> Campaign::GuardedStep(const std::stop_token& stop) {
  bool more = false;
  FULCRUM_RETURN_IF_ERROR(RunGuarded([&]() -> absl::Status {
    FULCRUM_ASSIGN_OR_RETURN(more, Step(stop));
    return absl::OkStatus();
  }));
  return more;
}

std::chrono::milliseconds Campaign::EndStep(const absl::Status& why, const std::stop_token& stop) {
  const std::string reason(why.message());
  const auto status = store_->status();
  const bool retried = IsTransient(why) && memory_failures_ < kMostMemoryFailures;
  const bool over = status->life != storage::Life::kRunning && !retried;
  if (stop.stop_requested() || over || absl::IsCancelled(why)) {
    // Nothing of the round is kept; it is run again when the campaign is opened or resumed, which it may be by now.
    Log(LogLevel::kInfo, "round stopped", {{"campaign", name_}, {"round", status->round + 1}, {"reason", reason}});
    return kTick;
  }
  if (retried) return NoteRetry(reason);
  const absl::StatusOr<bool> failed = EndRunning(storage::Life::kFailed, reason);
  // The failure is recorded as soon as the store accepts it; until then the step is retried with pauses.
  if (!failed.ok())
    return NoteRetry(absl::StrCat(reason, "; and that could not be recorded: ", failed.status().message()));
  memory_failures_ = 0;
  return kTick;
}

absl::StatusOr<bool> Campaign::Step(const std::stop_token& stop) {
  std::shared_ptr<const storage::CampaignStatus> status = store_->status();
  const bool model_leased = status->model_task && status->model_task->lease != 0;
  if (status->live_leases > 0 || model_leased) FULCRUM_RETURN_IF_ERROR(store_->ExpireLeases());
  if (quarantined() || closing_) return false;
  if (status->life == storage::Life::kDone) return TrainAfterTheEnd(*status, stop);
  if (status->life != storage::Life::kRunning) return false;
  if (status->round_open) {
    FULCRUM_RETURN_IF_ERROR(SettleStuck(*status));
    FULCRUM_ASSIGN_OR_RETURN(const storage::AdvanceAnswer answer,
                             store_->Run(storage::AdvanceRound, {.round = status->round, .forced = ""}));
    if (!answer.closed) {
      FULCRUM_ASSIGN_OR_RETURN(const bool closed, CloseSpentRound(status->round));
      if (!closed || life() != storage::Life::kRunning) return false;
    }
  }
  FULCRUM_ASSIGN_OR_RETURN(const bool waits, WaitsForModel(*store_->status()));
  if (waits) return false;
  return RunRound(status->round + 1, CampaignRound::Purpose::kSelect, stop);
}

absl::StatusOr<bool> Campaign::CloseSpentRound(std::int64_t round) {
  const std::shared_ptr<const CampaignPlan> plan = this->plan();
  if (plan->settings.label_budget <= 0 && plan->settings.cost_budget <= 0) return false;
  FULCRUM_ASSIGN_OR_RETURN(const SpentAnswer answer, store_->Run(CloseIfSpent, {.round = round}));
  if (!answer.over.empty()) {
    FULCRUM_RETURN_IF_ERROR(EndRunning(storage::Life::kDone, answer.over, answer.decided_under).status());
  }
  return answer.closed;
}

absl::Status Campaign::SettleStuck(const storage::CampaignStatus& status) {
  const bool quiet = store_->Now() >= status.last_labeling + plan()->settings.dispute_time;
  // While an annotator works, another one may come.
  const bool look =
      status.open_slots > 0 && (quiet || (status.live_leases == 0 && settled_at_ != status.last_sequence));
  if (!look) return absl::OkStatus();
  FULCRUM_RETURN_IF_ERROR(store_->Run(storage::SettleStuckItems, {}).status());
  settled_at_ = store_->status()->last_sequence;
  return absl::OkStatus();
}

absl::StatusOr<bool> Campaign::TrainAfterTheEnd(const storage::CampaignStatus& status, const std::stop_token& stop) {
  // A campaign that was stopped before it had a model has none to bring up to date.
  if (plan()->external || trained_at_ == 0 || status.last_label_sequence <= trained_at_ || status.live_leases > 0)
    return false;
  const absl::StatusOr<bool> more = RunRound(status.round + 1, CampaignRound::Purpose::kTrainOnly, stop);
  // Once per change, whatever comes of it, unless it may come of another attempt.
  const bool again = IsTransient(more.status()) || absl::IsCancelled(more.status());
  if (!again || memory_failures_ == kMostMemoryFailures) trained_at_ = std::max(trained_at_, status.last_sequence);
  return more;
}

absl::StatusOr<CampaignRound::Outcome> Campaign::RunMarked(std::int64_t number, CampaignRound::Purpose purpose,
                                                           const std::stop_source& cancel) {
  FULCRUM_RETURN_IF_ERROR(marker_->BeginRound(number));
  {
    const std::scoped_lock lock(mutex_);
    selecting_ = true;
    queued_ = false;
  }
  absl::StatusOr<CampaignRound::Outcome> outcome;
  // After an exception nothing that it kept for the next round can be relied on.
  bool finished = false;
  const absl::Status ran = RunGuarded([&] {
    outcome = round_->Run(number, purpose, cancel.get_token());
    finished = true;
    return outcome.status();
  });
  if (!finished) {
    outcome = ran;
    round_->Forget();
  }
  const bool cancelled = !outcome.ok() && cancel.stop_requested();
  if (const absl::Status unmarked = cancelled ? marker_->CancelRound() : marker_->EndRound(); !unmarked.ok()) {
    Log(LogLevel::kWarning, std::string(unmarked.message()), {{"campaign", name_}});
  }
  const std::scoped_lock lock(mutex_);
  selecting_ = false;
  round_ended_.notify_all();
  if (outcome.ok() && outcome->accuracy) accuracy_ = outcome->accuracy;
  return outcome;
}

absl::StatusOr<CampaignRound::Outcome> Campaign::RunWithMemory(std::int64_t number, CampaignRound::Purpose purpose,
                                                               const std::stop_token& stop) {
  std::stop_source cancel;
  {
    const std::scoped_lock lock(mutex_);
    round_stop_ = cancel;
    queued_ = true;
  }
  const absl::Cleanup leave = [this] {
    const std::scoped_lock lock(mutex_);
    queued_ = false;
    round_ended_.notify_all();
  };
  const std::stop_callback forward(stop, [&cancel] { cancel.request_stop(); });
  // A stop that came just before this found no round to cancel.
  if (purpose == CampaignRound::Purpose::kSelect && life() != storage::Life::kRunning) cancel.request_stop();
  // A job has the memory of its own machines, and may take hours.
  MemoryBudgetShare* const memory = plan()->cluster ? nullptr : services_.memory;
  if (memory != nullptr) FULCRUM_RETURN_IF_ERROR(memory->BeginRound(place_, cancel.get_token()));
  absl::StatusOr<CampaignRound::Outcome> outcome = RunMarked(number, purpose, cancel);
  if (memory != nullptr) memory->EndRound(place_);
  memory_failures_ = !outcome.ok() && round_->out_of_memory() ? memory_failures_ + 1 : 0;
  return outcome;
}

absl::StatusOr<bool> Campaign::RunRound(std::int64_t number, CampaignRound::Purpose purpose,
                                        const std::stop_token& stop) {
  FULCRUM_RETURN_IF_ERROR(StoreOfferedRows());
  FULCRUM_ASSIGN_OR_RETURN(const CampaignRound::Outcome outcome, RunWithMemory(number, purpose, stop));
  trained_at_ = std::max(trained_at_, outcome.trained_on);
  if (outcome.waits_for_model) {
    // Processes that asked before the task could be handed out.
    if (services_.on_change) services_.on_change();
    PublishState();
    return false;
  }
  if (outcome.times && services_.on_round) services_.on_round(*outcome.times);
  if (outcome.over) {
    FULCRUM_ASSIGN_OR_RETURN(const bool ended, EndRunning(storage::Life::kDone, *outcome.over, outcome.decided_under));
    // A stopping rule was changed while the round was computed: it may go on.
    return !ended && purpose == CampaignRound::Purpose::kSelect;
  }
  PublishState();
  return true;
}

}  // namespace fulcrum::pipeline
