// Tells those who watch a campaign what happens in it.
//
// Watchers get every event from the moment they come, on the thread where it happened, and must not block. Those that
// come late are first told of the models so far, so that they see the whole learning curve. Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "fulcrum/v1/campaign_service.pb.h"

namespace fulcrum::pipeline {

class EventBroadcaster {
 public:
  using Watcher = std::function<void(const v1::CampaignEvent&)>;

  /// Tells of the models so far at once. Until Unwatch returns, `watcher` may be called; `over` once, when nothing more
  /// will come because the daemon stops.
  std::int64_t Watch(Watcher watcher, std::function<void()> over = {});
  void Unwatch(std::int64_t id);
  /// Models that were trained before this process began, for those who come late.
  void Remember(v1::CampaignEvent model);
  /// Stamps the event with the time now and tells everybody.
  void Publish(v1::CampaignEvent event);
  /// Lets everybody go who watches, and whoever comes later.
  void Close();

 private:
  void Keep(v1::CampaignEvent model);

  std::mutex mutex_;
  std::int64_t next_ = 1;
  struct Entry {
    Watcher watcher = {};
    std::function<void()> over = {};
  };
  std::map<std::int64_t, Entry> watchers_;
  bool closed_ = false;
  std::deque<v1::CampaignEvent> models_;
};

}  // namespace fulcrum::pipeline
