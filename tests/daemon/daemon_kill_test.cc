// Kills the program repeatedly while workers label, and kills workers too. No acknowledged label is lost or counted
// twice, and the batches are those of an undisturbed run.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <latch>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "stages/core/random.h"
#include "tests/daemon/support/daemon_fixture.h"
#include "tests/daemon/support/daemon_process.h"

namespace fulcrum::testing {
namespace {

constexpr int kRounds = 60;  // enough that the campaign is not over before the last kill
constexpr int kWorkers = 50;
constexpr int kDaemonKills = 20;
constexpr std::chrono::seconds kBetweenWorkerKills{1};

class DaemonKillTest : public DaemonTest {
 protected:
  /// Waits until the restarted daemon has received labels, so that every kill hits it at work. Returns false if the
  /// campaign is over.
  bool WaitForLabels(const std::string& campaign) const {
    CampaignWatch watch(process_.port(), campaign);
    v1::CampaignEvent event;
    while (watch.Next(&event)) {
      if (event.campaign().state() == v1::CAMPAIGN_STATE_DONE) return false;
      if (event.has_labels()) {
        watch.Leave();
        return true;
      }
    }
    return watch.Finish().error_code() == grpc::StatusCode::UNAVAILABLE;
  }

  /// Kills the daemon when this round of the campaign reaches the stage, and restarts it. Returns false if the round
  /// never reaches it. Decrements `watching` when later events cannot be missed.
  bool KillInStage(const std::string& campaign, std::int64_t round, v1::Stage stage, std::latch& watching) {
    CampaignWatch watch(process_.port(), campaign);
    v1::CampaignEvent event;
    const bool told_of_the_state = watch.Next(&event);
    watching.count_down();
    while (told_of_the_state && watch.Next(&event)) {
      if (event.stage().round() != round || event.stage().stage() != stage) continue;
      process_.Kill();
      // Restarted here and not in the test, because the test's worker may still be retrying a call.
      process_.Spawn();
      return true;
    }
    return false;
  }

  DaemonProcess process_{{"--data", folder_.File("data"), "--pools", folder_.File("pools"), "--no-tokens"}};
};

/// Worker processes. Once per second, and on request, one of them is killed and replaced.
class MortalCrowd {
 public:
  MortalCrowd(int port, std::string campaign, std::string folder)
      : port_(port), campaign_(std::move(campaign)), folder_(std::move(folder)) {
    for (int i = 0; i < kWorkers; ++i) workers_.push_back(Spawn());
    killer_ = std::jthread([this](const std::stop_token& stop) { KillSome(stop); });
  }

  /// Waits until the campaign is over for all living workers. Returns the sequence numbers of the acknowledged labels.
  std::vector<std::int64_t> Wait() {
    killer_.request_stop();
    killer_.join();
    for (const pid_t worker : workers_) waitpid(worker, nullptr, 0);
    std::vector<std::int64_t> acknowledged;
    for (int i = 0; i < spawned_; ++i) {
      std::ifstream lines(FileOf(i));
      for (std::int64_t sequence = 0; lines >> sequence;) acknowledged.push_back(sequence);
    }
    return acknowledged;
  }
  void KillOne() {
    const std::scoped_lock lock(mutex_);
    pid_t& victim = workers_[random_.Below(workers_.size())];
    kill(victim, SIGKILL);
    waitpid(victim, nullptr, 0);
    victim = Spawn();
    ++killed_;
  }
  int killed() const { return killed_; }

 private:
  std::string FileOf(int number) const { return absl::StrCat(folder_, "/acknowledged-", number); }

  pid_t Spawn() {
    const std::string port = absl::StrCat(port_), annotator = absl::StrCat("worker-", spawned_);
    const std::string file = FileOf(spawned_++);
    const pid_t process = fork();
    if (process == 0) {
      execl(FULCRUM_WORKER, "worker", port.c_str(), campaign_.c_str(), annotator.c_str(), file.c_str(), nullptr);
      _exit(127);
    }
    return process;
  }

  void KillSome(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any changed;
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, stop, kBetweenWorkerKills, [] { return false; }) && !stop.stop_requested())
      KillOne();
  }

  const int port_;
  const std::string campaign_;
  const std::string folder_;
  std::mutex mutex_;
  Random random_{11};
  int spawned_ = 0;
  std::atomic<int> killed_ = 0;
  std::vector<pid_t> workers_;
  std::jthread killer_;
};

TEST_F(DaemonKillTest, AcknowledgedLabelsAndBatchesSurviveKills) {
  folder_.Write("pools/clouds.csv", CloudsText(400));
  process_.Spawn();
  DaemonClient client(process_.port(), "");
  for (const char* name : {"calm", "stormy"}) {
    v1::CampaignSpec spec = CloudSpec(name, kRounds);
    // Tasks of a killed worker are offered again, but a slow worker keeps its lease.
    spec.mutable_labeling()->mutable_lease_time()->set_seconds(15);
    const grpc::Status created = client.Create(spec);
    ASSERT_TRUE(created.ok()) << created.error_message();
    ASSERT_TRUE(client.Start(name).ok());
  }
  WorkUntilOver(client, "calm", "ada");

  MortalCrowd workers(process_.port(), "stormy", folder_.path());
  int kills = 0;
  while (kills < kDaemonKills && WaitForLabels("stormy")) {
    // On a fast machine the campaign is over within seconds, so the killer thread alone kills too few.
    workers.KillOne();
    process_.Kill();
    ++kills;
    process_.Spawn();
    // Two kills in a row may have hit the same round, which is then run only on request.
    DaemonClient(process_.port(), "").Start("stormy");
  }
  while (WaitForLabels("stormy")) {
  }
  const std::vector<std::int64_t> reported = workers.Wait();
  const std::set<std::int64_t> acknowledged(reported.begin(), reported.end());
  EXPECT_EQ(kills, kDaemonKills) << "the campaign ended before it was disturbed enough";
  EXPECT_EQ(acknowledged.size(), reported.size()) << "one label was acknowledged to two workers";

  std::set<std::int64_t> exported;
  std::set<std::string> items;
  for (const v1::ExportedLabel& label : client.Export("stormy")) {
    exported.insert(label.sequence());
    EXPECT_TRUE(items.insert(label.item_id()).second) << label.item_id() << " is labeled twice";
  }
  // A worker may be killed after its label was stored and before it recorded it.
  EXPECT_TRUE(std::ranges::includes(exported, acknowledged)) << "an acknowledged label was lost";
  EXPECT_LE(exported.size() - acknowledged.size(), 2 * static_cast<std::size_t>(workers.killed()));
  EXPECT_EQ(client.Get("stormy").labels(), kRounds * 6);
  EXPECT_EQ(client.ExportedBatches("stormy"), client.ExportedBatches("calm"));
}

/// The answer of an annotator of a crowd: wrong for some of the examples, of which each has its own.
std::string CrowdAnswer(const std::string& item, std::size_t annotator) {
  const std::size_t row = std::stoul(item);
  const bool wrong = (row * 7 + annotator * 3) % (annotator == 2 ? 3 : 11) == 0;
  return AnswerTo(absl::StrCat(row + (wrong ? 1 : 0)));
}

TEST_F(DaemonKillTest, ACrowdThatIsEstimatedGivesTheSameBatchesAndModelsAfterKills) {
  constexpr int kCrowdRounds = 4, kBatch = 8;
  folder_.Write("pools/clouds.csv", CloudsText(400));
  process_.Spawn();
  for (const char* name : {"calm", "stormy"}) {
    v1::CampaignSpec spec = CloudSpec(name, kCrowdRounds);
    spec.mutable_selection()->set_batch(kBatch);
    spec.mutable_labeling()->set_consensus(v1::CONSENSUS_DAWID_SKENE);
    spec.mutable_labeling()->set_overlap(3);
    DaemonClient client(process_.port(), "");
    const grpc::Status created = client.Create(spec);
    ASSERT_TRUE(created.ok()) << created.error_message();
    ASSERT_TRUE(client.Start(name).ok());
    for (int round = 1; round <= kCrowdRounds; ++round) {
      for (std::size_t annotator = 0; annotator < 3; ++annotator) {
        DaemonClient worker(process_.port(), "");
        const std::string who = absl::StrCat("worker-", annotator);
        for (int i = 0; i < kBatch; ++i) {
          const v1::Task task = worker.AcquireOne(name, who);
          ASSERT_EQ(worker.SubmitOne(name, who, task, CrowdAnswer(task.item_id(), annotator)), 0);
        }
        if (std::string(name) == "calm") continue;
        // After the last vote of a round this ends what follows from it: the estimate, the model, or the batch.
        process_.Kill();
        process_.Spawn();
        DaemonClient(process_.port(), "").Start(name);
      }
    }
    // The last fit of the calm one must not be met by the kills of the other.
    DaemonClient last(process_.port(), "");
    while (last.Get(name).state() != v1::CAMPAIGN_STATE_DONE) {
    }
  }
  DaemonClient client(process_.port(), "");
  EXPECT_EQ(client.ExportedBatches("calm"), client.ExportedBatches("stormy"));
  const std::vector<v1::ExportedLabel> calm = client.Export("calm"), stormy = client.Export("stormy");
  ASSERT_EQ(calm.size(), static_cast<std::size_t>(3 * kBatch * kCrowdRounds));
  ASSERT_EQ(calm.size(), stormy.size());
  for (std::size_t i = 0; i < calm.size(); ++i) {
    EXPECT_EQ(calm[i].item_id(), stormy[i].item_id());
    EXPECT_EQ(calm[i].confidence(), stormy[i].confidence());
    EXPECT_EQ(calm[i].annotator_accuracy(), stormy[i].annotator_accuracy());
  }
}

TEST_F(DaemonKillTest, ARoundSeenFromLandmarksThatIsCutShortGivesTheSameBatch) {
  constexpr std::int64_t kCutShort = 3;
  folder_.Write("pools/clouds.csv", CloudsText(2000));
  process_.Spawn();
  DaemonClient client(process_.port(), "");
  for (const char* name : {"calm", "stormy"}) {
    v1::CampaignSpec spec = CloudSpec(name, 5);
    spec.mutable_selection()->set_engine(v1::ENGINE_LANDMARK);
    ASSERT_TRUE(client.Create(spec).ok());
    ASSERT_TRUE(client.Start(name).ok());
  }
  WorkUntilOver(client, "calm", "ada");
  std::atomic<bool> killed = false;
  std::latch watching(1);
  std::jthread killer([&] { killed = KillInStage("stormy", kCutShort, v1::STAGE_SCORE, watching); });
  watching.wait();
  WorkUntilOver(client, "stormy", "ada", 6 * (kCutShort - 1));
  killer.join();
  ASSERT_TRUE(killed);
  WorkUntilOver(client, "stormy", "ada");
  EXPECT_EQ(client.ExportedBatches("stormy"), client.ExportedBatches("calm"));
}

TEST_F(DaemonKillTest, AFileOfAWatchedFolderIsAppendedOnceThoughTheFirstTryWasCutShort) {
  constexpr std::int64_t kFirstRows = 12, kRows = 50000;
  std::filesystem::create_directories(folder_.File("pools/incoming"));
  folder_.Write("pools/few.csv", NamedCloudsText(kFirstRows));
  process_.Spawn();
  v1::CampaignSpec spec = CloudSpec("few", 4);
  spec.mutable_pool()->set_sources(0, "few.csv");
  spec.mutable_pool()->set_watch("incoming");
  ASSERT_TRUE(DaemonClient(process_.port(), "").Create(spec).ok());
  const std::string written = folder_.Write("pools/incoming/.more.csv", NamedCloudsText(kRows));
  std::filesystem::rename(written, folder_.File("pools/incoming/more.csv"));
  // The folder is the first visible effect of an append, and the log entry the last.
  const std::filesystem::path pool = folder_.File("data/campaigns/few/pool");
  while (!std::filesystem::exists(pool / "appended-00001")) std::this_thread::yield();
  process_.Kill();
  process_.Spawn();
  DaemonClient client(process_.port(), "");
  EXPECT_EQ(client.Get("few").pool_rows(), kFirstRows) << "all was over before the kill";
  CampaignWatch watch(process_.port(), "few");
  v1::CampaignEvent event;
  while (client.Get("few").pool_rows() == kFirstRows && watch.Next(&event)) {
  }
  EXPECT_EQ(client.Get("few").pool_rows(), kRows);
  const auto entries = std::filesystem::directory_iterator(pool);
  EXPECT_EQ(std::count_if(begin(entries), end(entries),
                          [](const auto& entry) { return entry.path().filename().string().starts_with("appended-"); }),
            1);
}

}  // namespace
}  // namespace fulcrum::testing
