// /metrics, /healthz and /readyz of a daemon over HTTP.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/daemon/support/daemon_fixture.h"
#include "tests/support/http_get.h"

namespace fulcrum::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class WatchTest : public DaemonTest {
 protected:
  void StartWatched() {
    pipeline::DaemonOptions options = Options();
    options.watch.address = "127.0.0.1:0";
    StartDaemon(options);
  }
  std::string Ask(const std::string& path) const { return HttpGet(daemon_->watch_port(), path); }
};

TEST_F(WatchTest, MetricsTellWhatHappened) {
  StartWatched();
  DaemonClient client = Client();
  for (const char* name : {"ended", "waiting"}) {
    v1::CampaignSpec spec = CloudSpec(name, 3);
    spec.mutable_classifier()->set_tune(v1::TUNING_OFF);  // a new choice of settings is a cold start
    ASSERT_TRUE(client.Create(spec).ok());
    ASSERT_TRUE(client.Start(name).ok());
  }
  WorkUntilOver(client, "ended", "ada");
  v1::AcquireTasksRequest acquire;
  acquire.set_campaign("waiting");
  acquire.set_annotator("ada");
  acquire.set_request_id("hold");
  acquire.set_max_tasks(2);
  acquire.mutable_wait()->set_seconds(10);
  v1::AcquireTasksResponse tasks;
  ASSERT_TRUE(client.Acquire(acquire, &tasks).ok());
  ASSERT_EQ(tasks.tasks_size(), 2);

  const std::string text = Ask("/metrics");
  EXPECT_THAT(text, AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("Content-Type: text/plain; version=0.0.4")));
  EXPECT_THAT(text, AllOf(HasSubstr("fulcrum_campaigns{state=\"done\"} 1\n"),
                          HasSubstr("fulcrum_campaigns{state=\"waiting\"} 1\n"),
                          HasSubstr("fulcrum_campaigns{state=\"broken\"} 0\n")));
  EXPECT_THAT(text, AllOf(HasSubstr("fulcrum_labels_total{campaign=\"ended\"} 18\n"),
                          HasSubstr("fulcrum_rounds_total{campaign=\"ended\"} 3\n"),
                          HasSubstr("fulcrum_live_leases{campaign=\"waiting\"} 2\n"),
                          HasSubstr("fulcrum_open_tasks{campaign=\"waiting\"} 4\n"),
                          HasSubstr("fulcrum_commit_queue_depth{campaign=\"waiting\"} "),
                          HasSubstr("fulcrum_waiting_workers 0\n")));
  // Three batches: the first covers the pool without labels or scores, the second without a previous round.
  EXPECT_THAT(text, AllOf(HasSubstr("fulcrum_stage_seconds_count{campaign=\"ended\",stage=\"score\"} 2\n"),
                          HasSubstr("fulcrum_round_seconds_count{campaign=\"ended\",start=\"cold\"} 2\n"),
                          HasSubstr("fulcrum_round_seconds_count{campaign=\"ended\",start=\"warm\"} 1\n")));
  EXPECT_THAT(text, ContainsRegex("fulcrum_commit_seconds_count\\{campaign=\"ended\"\\} [1-9]"));
  EXPECT_THAT(text, ContainsRegex("process_resident_memory_bytes [1-9]"));

  ASSERT_TRUE(client.Delete("ended").ok());
  EXPECT_THAT(Ask("/metrics"), AllOf(Not(HasSubstr("campaign=\"ended\"")), HasSubstr("campaign=\"waiting\"")));
}

TEST_F(WatchTest, ReadyUntilTheDiskCannotBeWritten) {
  StartWatched();
  EXPECT_THAT(Ask("/readyz"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Ask("/healthz"), StartsWith("HTTP/1.1 200"));
  std::filesystem::rename(folder_.File("data"), folder_.File("elsewhere"));
  EXPECT_THAT(Ask("/readyz"), AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("cannot be written")));
  EXPECT_THAT(Ask("/healthz"), StartsWith("HTTP/1.1 200")) << "starting again would not help";
  std::filesystem::rename(folder_.File("elsewhere"), folder_.File("data"));
  EXPECT_THAT(Ask("/readyz"), StartsWith("HTTP/1.1 200"));
}

TEST_F(WatchTest, OtherPathsAndMethodsAreRefused) {
  StartWatched();
  EXPECT_THAT(Ask("/"), AllOf(StartsWith("HTTP/1.1 404"), HasSubstr("/metrics")));
  EXPECT_THAT(Ask("/metrics/../../../etc/passwd"), Not(HasSubstr("root:")));
  EXPECT_THAT(HttpGet(daemon_->watch_port(), "/metrics", "POST"), StartsWith("HTTP/1.1 405"));
}

TEST_F(WatchTest, APortThatIsTakenIsAnErrorIfItWasAskedForAndAWarningOtherwise) {
  StartWatched();
  pipeline::DaemonOptions second = Options();
  second.data_folder = folder_.File("second");
  second.watch.address = absl::StrCat("127.0.0.1:", daemon_->watch_port());
  EXPECT_EQ(pipeline::Daemon::Start(second).status().code(), absl::StatusCode::kUnavailable);
  second.watch.may_fail = true;
  const auto started = pipeline::Daemon::Start(second);
  ASSERT_TRUE(started.ok()) << started.status();
  EXPECT_EQ((*started)->watch_port(), 0);
}

}  // namespace
}  // namespace fulcrum::testing
