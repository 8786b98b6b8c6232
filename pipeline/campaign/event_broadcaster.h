// Tells those who watch a campaign what happens in it.
//
// Watchers get every event from the moment they come, on the thread where it happened, and must not block. Those that
// come late are first told of the models so far, so that they see the whole learning curve; those that come back are
// told what they missed: from memory, or what a process before this one did, from the log (ReadEvents).
//
// Some events tell of a change in the log (a batch, a model, rows, a state); these are kept by their sequence number.
// The number that an event is sent with is one to resume after: all changes up to it have been sent before, or are this
// event. A change is announced before it is written, and the number does not move past it until it is published.
// Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "fulcrum/v1/campaign_service.pb.h"

namespace fulcrum::pipeline {

class EventBroadcaster {
 public:
  using Watcher = std::function<void(const v1::CampaignEvent&)>;

  /// A change of the log that is announced, until it is published or this is gone.
  class Announcement {
   public:
    explicit Announcement(EventBroadcaster& events) : events_(&events) {}
    Announcement(Announcement&& other) noexcept : events_(std::exchange(other.events_, nullptr)) {}
    Announcement& operator=(Announcement&&) = delete;
    ~Announcement();

   private:
    friend class EventBroadcaster;
    EventBroadcaster* events_;
  };

  /// The end of the log as it is known, which is where changes are that an earlier process wrote. Before anything else.
  void SetLog(std::function<std::int64_t()> last_sequence);
  /// Tells at once of the models so far; or, if `after` is not 0, of the changes after that sequence number, as far as
  /// they are kept. Until Unwatch returns, `watcher` may be called (it may be null); `over` once, when nothing more
  /// will come because the daemon stops or the campaign is deleted.
  std::int64_t Watch(std::int64_t after, Watcher watcher, std::function<void()> over = {});
  void Unwatch(std::int64_t id);
  /// Models that were trained before this process began, for those who come late.
  void Remember(v1::CampaignEvent model);
  /// To be called before a change is written, and held until it is published.
  Announcement Announce();
  /// Tells all watchers of a change with this sequence number, at the time now.
  void PublishChange(v1::CampaignEvent event, std::int64_t sequence, Announcement announcement);
  /// Tells all watchers of what is so at the moment, such as progress.
  void Publish(v1::CampaignEvent event);
  /// The number that an event would be sent with now.
  std::int64_t resume_point();
  /// Changes up to here are not kept; those after it are.
  std::int64_t kept_after();
  /// Ends all streams of watchers, and those that begin later until Reopen.
  void Close();
  void Reopen();

 private:
  void Keep(const v1::CampaignEvent& event);
  void KeepModel(const v1::CampaignEvent& event);
  /// Moves the resume point to the end of the log, unless a change is announced.
  void Advance();
  void Send(const v1::CampaignEvent& event);

  std::function<std::int64_t()> last_sequence_;
  std::mutex mutex_;
  std::int64_t next_ = 1;
  struct Entry {
    Watcher watcher = {};
    std::function<void()> over = {};
  };
  std::map<std::int64_t, Entry> watchers_;
  bool closed_ = false;
  int announced_ = 0;
  std::int64_t resume_point_ = 0;
  std::int64_t kept_after_ = 0;
  std::deque<v1::CampaignEvent> models_;
  std::multimap<std::int64_t, v1::CampaignEvent> kept_;  // changes of this process, by sequence
};

/// What the log of the campaign in a folder says of its changes after `after` and up to `through`, at most the last
/// thousand. Takes as long as it takes to read that part of the log. Batches come without the value and the time of the
/// selection, which are not in the log.
absl::StatusOr<std::vector<v1::CampaignEvent>> ReadEvents(const std::string& folder, const std::string& campaign,
                                                          std::int64_t after, std::int64_t through);

}  // namespace fulcrum::pipeline
