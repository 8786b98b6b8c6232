// Tells those who watch a campaign what happens in it.
//
// Watchers get every event from the moment they come, on the thread where it happened, and must not block. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

namespace fulcrum::v1 {
class CampaignEvent;
}  // namespace fulcrum::v1

namespace fulcrum::pipeline {

class EventHub {
 public:
  using Watcher = std::function<void(const v1::CampaignEvent&)>;

  /// Until Unwatch returns, `watcher` may be called.
  std::int64_t Watch(Watcher watcher);
  void Unwatch(std::int64_t id);
  /// Stamps the event with the time now and tells everybody.
  void Publish(v1::CampaignEvent event);

 private:
  std::mutex mutex_;
  std::int64_t next_ = 1;
  std::map<std::int64_t, Watcher> watchers_;
};

}  // namespace fulcrum::pipeline
