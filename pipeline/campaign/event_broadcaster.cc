#include "pipeline/campaign/event_broadcaster.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <utility>

namespace fulcrum::pipeline {
namespace {

// Fewer than a watcher's queue takes.
constexpr std::size_t kMostModels = 500;
constexpr std::size_t kMostRecent = 1000;

/// How far a stage or a count of labels is says nothing once it is over.
bool IsWorthKeeping(const v1::CampaignEvent& event) {
  return event.has_model() || event.has_batch() || event.has_items() || event.has_campaign();
}

}  // namespace

std::int64_t EventBroadcaster::Watch(std::int64_t after, Watcher watcher, std::function<void()> over) {
  const std::scoped_lock lock(mutex_);
  for (const v1::CampaignEvent& event : after == 0 ? models_ : recent_) {
    if (event.sequence() > after) watcher(event);
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

void EventBroadcaster::Keep(const v1::CampaignEvent& event) {
  last_sequence_ = std::max(last_sequence_, event.sequence());
  if (!IsWorthKeeping(event)) return;
  if (event.has_model()) models_.push_back(event);
  if (models_.size() > kMostModels) models_.pop_front();
  recent_.push_back(event);
  if (recent_.size() > kMostRecent) recent_.pop_front();
}

void EventBroadcaster::Remember(v1::CampaignEvent model) {
  const std::scoped_lock lock(mutex_);
  Keep(model);
}

void EventBroadcaster::Publish(v1::CampaignEvent event) {
  *event.mutable_time() = google::protobuf::util::TimeUtil::GetCurrentTime();
  if (event.sequence() == 0 && sequence_source_) event.set_sequence(sequence_source_());
  // Called under the lock, so that a watcher who has left is never called; watchers only queue.
  const std::scoped_lock lock(mutex_);
  event.set_sequence(std::max(event.sequence(), last_sequence_));
  Keep(event);
  for (const auto& [id, entry] : watchers_) {
    if (entry.watcher) entry.watcher(event);
  }
}

}  // namespace fulcrum::pipeline
