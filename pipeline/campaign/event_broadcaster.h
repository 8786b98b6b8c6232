// Tells those who watch a campaign what happens in it.
//
// Watchers get every event from the moment they come, on the thread where it happened, and must not block. Those that
// come late are first told of the models so far, so that they see the whole learning curve; those that come back are
// told what they missed, as far as it is kept. Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "fulcrum/v1/campaign_service.pb.h"

namespace fulcrum::pipeline {

class EventBroadcaster {
 public:
  using Watcher = std::function<void(const v1::CampaignEvent&)>;

  /// Where an event stands in the campaign's log when it is published. To be set before anything is published.
  void set_sequence_source(std::function<std::int64_t()> source) { sequence_source_ = std::move(source); }
  /// Tells at once of the models so far; or, if `after` is not 0, of what came after that sequence number, as far as it
  /// is kept. Until Unwatch returns, `watcher` may be called (it may be null); `over` once, when nothing more will come
  /// because the daemon stops or the campaign is deleted.
  std::int64_t Watch(std::int64_t after, Watcher watcher, std::function<void()> over = {});
  void Unwatch(std::int64_t id);
  /// Models that were trained before this process began, for those who come late.
  void Remember(v1::CampaignEvent model);
  /// Stamps the event with the time now, and its sequence number unless it has one, and tells everybody.
  void Publish(v1::CampaignEvent event);
  /// Lets everybody go who watches, and those who come later until Reopen.
  void Close();
  void Reopen();

 private:
  void Keep(const v1::CampaignEvent& event);

  std::function<std::int64_t()> sequence_source_;
  std::mutex mutex_;
  std::int64_t next_ = 1;
  struct Entry {
    Watcher watcher = {};
    std::function<void()> over = {};
  };
  std::map<std::int64_t, Entry> watchers_;
  bool closed_ = false;
  std::int64_t last_sequence_ = 0;
  std::deque<v1::CampaignEvent> models_;
  std::deque<v1::CampaignEvent> recent_;  // what is worth telling those who come back, models included
};

}  // namespace fulcrum::pipeline
