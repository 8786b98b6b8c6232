#include "pipeline/campaign/event_hub.h"

#include <google/protobuf/util/time_util.h>

#include <utility>

#include "fulcrum/v1/campaign_service.pb.h"

namespace fulcrum::pipeline {

std::int64_t EventHub::Watch(Watcher watcher) {
  const std::scoped_lock lock(mutex_);
  watchers_.emplace(next_, std::move(watcher));
  return next_++;
}

void EventHub::Unwatch(std::int64_t id) {
  const std::scoped_lock lock(mutex_);
  watchers_.erase(id);
}

void EventHub::Publish(v1::CampaignEvent event) {
  *event.mutable_time() = google::protobuf::util::TimeUtil::GetCurrentTime();
  // Called under the lock, so that a watcher who has left is never called; watchers only queue.
  const std::scoped_lock lock(mutex_);
  for (const auto& [id, watcher] : watchers_) watcher(event);
}

}  // namespace fulcrum::pipeline
