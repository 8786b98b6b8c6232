#include "pipeline/campaign/event_broadcaster.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "pipeline/campaign/stored_text.h"
#include "stages/core/status_macros.h"
#include "storage/campaign_reader.h"
#include "storage/clock.h"
#include "storage/log/event.h"
#include "storage/state/campaign_records.h"

namespace fulcrum::pipeline {
namespace {

// Fewer than a watcher's queue takes.
constexpr std::size_t kMostModels = 500;
constexpr std::size_t kMostChanges = 1000;

}  // namespace

EventBroadcaster::Announcement::~Announcement() {
  if (events_ == nullptr) return;
  const std::scoped_lock lock(events_->mutex_);
  --events_->announced_;
}

void EventBroadcaster::SetLog(std::function<std::int64_t()> last_sequence) {
  const std::scoped_lock lock(mutex_);
  last_sequence_ = std::move(last_sequence);
  kept_after_ = last_sequence_();
  Advance();
}

EventBroadcaster::Announcement EventBroadcaster::Announce() {
  const std::scoped_lock lock(mutex_);
  // What was written so far is published: otherwise it would still be announced.
  Advance();
  ++announced_;
  return Announcement(*this);
}

void EventBroadcaster::Advance() {
  if (announced_ == 0 && last_sequence_) resume_point_ = std::max(resume_point_, last_sequence_());
}

std::int64_t EventBroadcaster::resume_point() {
  const std::scoped_lock lock(mutex_);
  Advance();
  return resume_point_;
}

std::int64_t EventBroadcaster::kept_after() {
  const std::scoped_lock lock(mutex_);
  return kept_after_;
}

std::int64_t EventBroadcaster::Watch(std::int64_t after, Watcher watcher, std::function<void()> over) {
  const std::scoped_lock lock(mutex_);
  if (after == 0) {
    for (const v1::CampaignEvent& model : models_) watcher(model);
  } else {
    for (auto change = kept_.upper_bound(after); change != kept_.end(); ++change) watcher(change->second);
  }
  if (closed_ && over) over();
  watchers_.emplace(next_, Entry{std::move(watcher), std::move(over)});
  return next_++;
}

void EventBroadcaster::Close() {
  const std::scoped_lock lock(mutex_);
  if (std::exchange(closed_, true)) return;
  for (const auto& [id, entry] : watchers_) {
    if (entry.over) entry.over();
  }
}

void EventBroadcaster::Reopen() {
  const std::scoped_lock lock(mutex_);
  closed_ = false;
}

void EventBroadcaster::Unwatch(std::int64_t id) {
  const std::scoped_lock lock(mutex_);
  watchers_.erase(id);
}

void EventBroadcaster::KeepModel(const v1::CampaignEvent& event) {
  models_.push_back(event);
  if (models_.size() > kMostModels) models_.pop_front();
}

void EventBroadcaster::Keep(const v1::CampaignEvent& event) {
  if (event.has_model()) KeepModel(event);
  kept_.emplace(event.sequence(), event);
  if (kept_.size() <= kMostChanges) return;
  kept_after_ = std::max(kept_after_, kept_.begin()->first);
  kept_.erase(kept_.begin());
}

void EventBroadcaster::Remember(v1::CampaignEvent model) {
  const std::scoped_lock lock(mutex_);
  KeepModel(model);
}

// Called under the lock, so that a watcher who has left is never called; watchers only queue.
void EventBroadcaster::Send(const v1::CampaignEvent& event) {
  for (const auto& [id, entry] : watchers_) {
    if (entry.watcher) entry.watcher(event);
  }
}

void EventBroadcaster::PublishChange(v1::CampaignEvent event, std::int64_t sequence, Announcement announcement) {
  *event.mutable_time() = google::protobuf::util::TimeUtil::GetCurrentTime();
  event.set_sequence(sequence);
  const std::scoped_lock lock(mutex_);
  announcement.events_ = nullptr;
  --announced_;
  Keep(event);
  Advance();
  event.set_sequence(resume_point_);
  Send(event);
}

void EventBroadcaster::Publish(v1::CampaignEvent event) {
  *event.mutable_time() = google::protobuf::util::TimeUtil::GetCurrentTime();
  const std::scoped_lock lock(mutex_);
  Advance();
  event.set_sequence(resume_point_);
  Send(event);
}

namespace {

v1::CampaignState StateOf(const std::string& life) {
  const auto parsed = storage::ParseLife(life);
  if (!parsed.ok()) return v1::CAMPAIGN_STATE_UNSPECIFIED;
  switch (*parsed) {
    case storage::Life::kCreated:
      return v1::CAMPAIGN_STATE_CREATED;
    case storage::Life::kRunning:
      return v1::CAMPAIGN_STATE_RUNNING;
    case storage::Life::kPaused:
      return v1::CAMPAIGN_STATE_PAUSED;
    case storage::Life::kDone:
      return v1::CAMPAIGN_STATE_DONE;
    case storage::Life::kFailed:
      return v1::CAMPAIGN_STATE_FAILED;
  }
  return v1::CAMPAIGN_STATE_UNSPECIFIED;
}

/// Makes events of what the log says.
class EventReader {
 public:
  explicit EventReader(std::string campaign) : campaign_(std::move(campaign)) {}

  absl::Status Read(const storage::Event& event) {
    if (const auto* batched = std::get_if<storage::ItemBatched>(&event.body)) {
      // The items of a batch come right after it.
      if (!events_.empty() && events_.back().batch().round() == batched->round) {
        events_.back().mutable_batch()->set_items(events_.back().batch().items() + 1);
      }
      return absl::OkStatus();
    }
    v1::CampaignEvent change;
    if (const auto* committed = std::get_if<storage::BatchCommitted>(&event.body)) {
      change.mutable_batch()->set_round(committed->round);
    } else if (const auto* life = std::get_if<storage::LifeChanged>(&event.body)) {
      change.mutable_campaign()->set_name(campaign_);
      change.mutable_campaign()->set_state(StateOf(life->life));
      change.mutable_campaign()->set_state_reason(life->reason);
      change.mutable_campaign()->set_sequence(event.sequence);
    } else if (const auto* model = std::get_if<storage::ModelStored>(&event.body)) {
      if (model->record.empty()) return absl::OkStatus();
      FULCRUM_RETURN_IF_ERROR(ParseStoredText(model->record, *change.mutable_model()));
    } else if (const auto* rows = std::get_if<storage::RowsAppended>(&event.body)) {
      if (rows->rows == 0) return absl::OkStatus();
      v1::AppendItemsResponse answer;
      FULCRUM_RETURN_IF_ERROR(ParseStoredText(rows->answer, answer));
      change.mutable_items()->set_added(rows->rows);
      change.mutable_items()->set_pool_rows(answer.pool_rows());
    } else {
      return absl::OkStatus();
    }
    change.set_sequence(event.sequence);
    *change.mutable_time() = google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(storage::ToMicros(event.at));
    events_.push_back(std::move(change));
    if (events_.size() > kMostChanges) events_.pop_front();
    return absl::OkStatus();
  }
  std::vector<v1::CampaignEvent> Take() && {
    return {std::make_move_iterator(events_.begin()), std::make_move_iterator(events_.end())};
  }

 private:
  const std::string campaign_;
  std::deque<v1::CampaignEvent> events_;
};

}  // namespace

absl::StatusOr<std::vector<v1::CampaignEvent>> ReadEvents(const std::string& folder, const std::string& campaign,
                                                          std::int64_t after, std::int64_t through) {
  FULCRUM_ASSIGN_OR_RETURN(const auto reader, storage::CampaignReader::Open(folder));
  EventReader events(campaign);
  FULCRUM_RETURN_IF_ERROR(
      reader->VisitEvents(after + 1, through, [&events](const storage::Event& event) { return events.Read(event); }));
  return std::move(events).Take();
}

}  // namespace fulcrum::pipeline
