#include "pipeline/campaign/event_broadcaster.h"

#include <google/protobuf/util/time_util.h>

#include <utility>

namespace fulcrum::pipeline {
namespace {

// Fewer than a watcher's queue takes.
constexpr std::size_t kMostModels = 500;

}  // namespace

std::int64_t EventBroadcaster::Watch(Watcher watcher, std::function<void()> over) {
  const std::scoped_lock lock(mutex_);
  for (const v1::CampaignEvent& event : models_) watcher(event);
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

void EventBroadcaster::Unwatch(std::int64_t id) {
  const std::scoped_lock lock(mutex_);
  watchers_.erase(id);
}

void EventBroadcaster::Keep(v1::CampaignEvent model) {
  models_.push_back(std::move(model));
  if (models_.size() > kMostModels) models_.pop_front();
}

void EventBroadcaster::Remember(v1::CampaignEvent model) {
  const std::scoped_lock lock(mutex_);
  Keep(std::move(model));
}

void EventBroadcaster::Publish(v1::CampaignEvent event) {
  *event.mutable_time() = google::protobuf::util::TimeUtil::GetCurrentTime();
  // Called under the lock, so that a watcher who has left is never called; watchers only queue.
  const std::scoped_lock lock(mutex_);
  if (event.has_model()) Keep(event);
  for (const auto& [id, entry] : watchers_) entry.watcher(event);
}

}  // namespace fulcrum::pipeline
