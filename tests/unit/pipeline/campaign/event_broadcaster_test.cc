// A watcher that resumes after the sequence number of any event misses no change.
#include "pipeline/campaign/event_broadcaster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <list>
#include <set>
#include <vector>

#include "stages/core/random.h"

namespace fulcrum::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::CampaignEvent Batch(std::int64_t round) {
  v1::CampaignEvent event;
  event.mutable_batch()->set_round(round);
  return event;
}

v1::CampaignEvent Labels(std::int64_t labels) {
  v1::CampaignEvent event;
  event.mutable_labels()->set_labels(labels);
  return event;
}

class EventBroadcasterTest : public ::testing::Test {
 protected:
  EventBroadcasterTest() {
    events_.SetLog([this] { return log_; });
  }
  /// The rounds of the batches that a watcher is told who resumes after this number.
  std::vector<std::int64_t> ResumeAfter(std::int64_t sequence) {
    std::vector<std::int64_t> rounds;
    const std::int64_t id =
        events_.Watch(sequence, [&rounds](const v1::CampaignEvent& event) { rounds.push_back(event.batch().round()); });
    events_.Unwatch(id);
    return rounds;
  }

  std::int64_t log_ = 10;  // its last sequence number
  EventBroadcaster events_;
};

TEST_F(EventBroadcasterTest, AnEventOfTheMomentDoesNotHideAChangeThatIsNotPublishedYet) {
  std::vector<std::int64_t> numbers;
  events_.Watch(1, [&numbers](const v1::CampaignEvent& event) { numbers.push_back(event.sequence()); });
  EventBroadcaster::Announcement batch = events_.Announce();
  log_ = 11;  // the batch is written,
  log_ = 12;  // and a label after it
  events_.Publish(Labels(1));
  EXPECT_THAT(numbers, ElementsAre(10));
  events_.PublishChange(Batch(1), 11, std::move(batch));
  EXPECT_THAT(numbers, ElementsAre(10, 12));
  EXPECT_THAT(ResumeAfter(10), ElementsAre(1));
  EXPECT_THAT(ResumeAfter(12), IsEmpty());
}

TEST_F(EventBroadcasterTest, AChangeThatWasRefusedHoldsNothingUp) {
  {
    const EventBroadcaster::Announcement refused = events_.Announce();
    log_ = 11;
    EXPECT_EQ(events_.resume_point(), 10);
  }
  EXPECT_EQ(events_.resume_point(), 11);
}

TEST_F(EventBroadcasterTest, NoChangeIsLostWhereverAWatcherBreaks) {
  // Changes are written in one order and published in another one, with labels between them.
  Random random(5);
  struct Change {
    std::int64_t round = 0, sequence = 0;
    EventBroadcaster::Announcement announcement;
  };
  struct Seen {
    std::int64_t number = 0;
    std::set<std::int64_t> rounds = {};  // all that was received up to this event
  };
  std::vector<Seen> seen;
  std::set<std::int64_t> received;
  events_.Watch(1, [&](const v1::CampaignEvent& event) {
    if (event.has_batch()) received.insert(event.batch().round());
    seen.push_back({event.sequence(), received});
  });
  std::list<Change> written;
  std::int64_t rounds = 0;
  for (int step = 0; step < 300; ++step) {
    const std::uint64_t what = random.Below(3);
    if (what == 0) {
      EventBroadcaster::Announcement announcement = events_.Announce();
      written.push_back({++rounds, ++log_, std::move(announcement)});
    } else if (what == 1 && !written.empty()) {
      const auto change = std::next(written.begin(), static_cast<std::ptrdiff_t>(random.Below(written.size())));
      events_.PublishChange(Batch(change->round), change->sequence, std::move(change->announcement));
      written.erase(change);
    } else {
      ++log_;
      events_.Publish(Labels(step));
    }
  }
  for (Change& change : written) {
    events_.PublishChange(Batch(change.round), change.sequence, std::move(change.announcement));
  }
  ASSERT_EQ(received.size(), static_cast<std::size_t>(rounds));
  std::int64_t before = 0;
  for (const Seen& event : seen) {
    EXPECT_GE(event.number, before);
    before = event.number;
    std::set<std::int64_t> all = event.rounds;
    for (const std::int64_t round : ResumeAfter(event.number)) all.insert(round);
    EXPECT_EQ(all, received) << "resumed after " << event.number;
  }
}

}  // namespace
}  // namespace fulcrum::pipeline
