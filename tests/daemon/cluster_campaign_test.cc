// Campaigns whose rounds are computed by jobs. The launcher of most tests is a script that waits at a gate, or `env`,
// which starts one process; the test with mpirun is skipped if the program was built without FULCRUM_MPI.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/daemon/support/daemon_fixture.h"
#include "tests/daemon/support/daemon_process.h"

namespace fulcrum::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// A job that waits at the gate, until it is let through or has ended.
class HeldJob {
 public:
  /// Waits until a job is at the gate.
  explicit HeldJob(const std::string& folder) : gate_(open((folder + "/gate").c_str(), O_WRONLY)) {
    EXPECT_GE(gate_, 0);
    std::ifstream(folder + "/process") >> process_;
  }
  ~HeldJob() { LetThrough(); }
  HeldJob(const HeldJob&) = delete;
  HeldJob& operator=(const HeldJob&) = delete;

  pid_t process() const { return process_; }
  void LetThrough() {
    if (gate_ >= 0) close(std::exchange(gate_, -1));
  }
  /// Whether it ends, without being let through.
  bool Ends() const {
    constexpr int kMostMilliseconds = 60'000;
    pollfd gate{.fd = gate_, .events = 0, .revents = 0};
    return poll(&gate, 1, kMostMilliseconds) == 1 && (gate.revents & POLLERR) != 0;
  }

 private:
  int gate_;
  pid_t process_ = 0;
};

class ClusterCampaignTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    ASSERT_EQ(mkfifo(folder_.File("gate").c_str(), 0600), 0);
    WriteScript("gate.sh", absl::StrCat("echo $$ > ", folder_.File("process"), "\ntest -e ", folder_.File("open"),
                                        " || read word < ", folder_.File("gate"), "\nexec \"$@\"\n"));
    WriteScript("stubborn.sh",
                absl::StrCat("trap '' TERM\necho waiting >&2\nread word < ", folder_.File("gate"), "\n"));
    WriteScript("broken.sh", "echo starting\nprintf 'rank 3 on node-7: out of memory \\377\\n' >&2\nexit 75\n");
    WriteScript("lazy.sh",
                "for plan; do :; done\necho 'slurmstepd: out of memory' > \"$(dirname \"$plan\")/output\"\n");
  }

  /// Lets all jobs through from now on that are not at the gate yet.
  void LeaveGateOpen() { folder_.Write("open", ""); }

  void WriteScript(const std::string& name, const std::string& text) {
    folder_.Write(name, "#!/bin/sh\n" + text);
    std::filesystem::permissions(folder_.File(name), std::filesystem::perms::owner_all);
  }

  pipeline::DaemonOptions ClusterOptions() const {
    pipeline::DaemonOptions options = Options();
    options.launchers.program = FULCRUM_PROGRAM;
    options.launchers.commands["here"] = "env";
    for (const char* const name : {"gate", "stubborn", "broken", "lazy"}) {
      options.launchers.commands[name] = folder_.File(absl::StrCat(name, ".sh"));
    }
    options.launchers.commands["absent"] = "/there/is/no/such/launcher -n 8";
    return options;
  }

  static v1::CampaignSpec JobSpec(const std::string& name, const std::string& launcher, int rounds = 3) {
    v1::CampaignSpec spec = CloudSpec(name, rounds);
    spec.mutable_selection()->mutable_cluster()->set_launcher(launcher);
    return spec;
  }

  static void Run(DaemonClient& client, const v1::CampaignSpec& spec) {
    const grpc::Status created = client.Create(spec);
    ASSERT_TRUE(created.ok()) << created.error_message();
    ASSERT_TRUE(client.Start(spec.name()).ok());
  }

  /// What the daemon itself selects.
  static Batches BatchesWithoutJobs(DaemonClient& client, v1::CampaignSpec spec) {
    spec.set_name("local");
    spec.mutable_selection()->clear_cluster();
    Run(client, spec);
    WorkUntilOver(client, "local", "ada");
    return client.ExportedBatches("local");
  }

  /// The campaign when it is in this state.
  static v1::Campaign Await(int port, const std::string& name, v1::CampaignState state) {
    CampaignWatch watch(port, name);
    v1::CampaignEvent event;
    while (watch.Next(&event)) {
      if (event.campaign().state() != state) continue;
      watch.Leave();
      return event.campaign();
    }
    ADD_FAILURE() << "campaign '" << name << "' did not get into state " << state;
    return {};
  }
};

TEST_F(ClusterCampaignTest, SelectsWhatTheDaemonItselfSelects) {
  StartDaemon(ClusterOptions());
  DaemonClient client = Client();
  const std::vector<std::pair<std::string, std::function<void(v1::CampaignSpec&)>>> kinds = {
      {"tuned", [](v1::CampaignSpec&) {}},
      {"given",
       [](v1::CampaignSpec& spec) {
         spec.mutable_selection()->set_strategy("hybrid");
         spec.mutable_classifier()->mutable_kernel()->set_sigma(2);
       }},
      {"weighted", [](v1::CampaignSpec& spec) {
         spec.mutable_selection()->set_strategy("adaptive-herding");
         spec.mutable_labeling()->set_consensus(v1::CONSENSUS_DAWID_SKENE);
       }}};
  for (const auto& [name, change] : kinds) {
    for (const char* const where : {"local", "job"}) {
      v1::CampaignSpec spec = JobSpec(absl::StrCat(name, "-", where), "here", 4);
      change(spec);
      if (std::string(where) == "local") spec.mutable_selection()->clear_cluster();
      Run(client, spec);
      WorkUntilOver(client, spec.name(), "ada");
    }
    const std::string local = name + "-local", job = name + "-job";
    EXPECT_EQ(client.ExportedBatches(job), client.ExportedBatches(local));
    EXPECT_EQ(client.ExportedBatches(job).size(), 4u);
    const std::vector<v1::ModelTrained> models = client.Models(job), expected = client.Models(local);
    ASSERT_EQ(models.size(), expected.size());
    for (std::size_t i = 0; i < models.size(); ++i) {
      EXPECT_EQ(models[i].changed_share(), expected[i].changed_share()) << name;
      EXPECT_EQ(models[i].support_vectors(), expected[i].support_vectors()) << name;
      EXPECT_EQ(models[i].tuning().chosen().normalize(), expected[i].tuning().chosen().normalize()) << name;
    }
    const std::vector<double> decisions = client.Decisions(job, {"0", "1", "77"});
    const std::vector<double> local_decisions = client.Decisions(local, {"0", "1", "77"});
    ASSERT_EQ(decisions.size(), local_decisions.size());
    for (std::size_t i = 0; i < decisions.size(); ++i) EXPECT_NEAR(decisions[i], local_decisions[i], 1e-5) << name;
  }
  EXPECT_FALSE(std::filesystem::exists(folder_.File("data/campaigns/tuned-job/cluster"))) << "files are left over";
}

TEST_F(ClusterCampaignTest, RowsThatAreAppendedTakePart) {
  StartDaemon(ClusterOptions());
  DaemonClient client = Client();
  std::string rows = "id,f0,f1,f2,f3\n";
  for (int row = 200; row < 240; ++row) absl::StrAppend(&rows, row, row % 2 == 0 ? ",-3,-3,1,1\n" : ",3,3,1,-1\n");
  for (const std::string name : {"job", "local"}) {
    v1::CampaignSpec spec = JobSpec(name, "here", 4);
    spec.mutable_pool()->set_sources(0, "named.csv");
    spec.mutable_pool()->set_id_column("id");
    spec.mutable_pool()->set_watch(name);
    std::filesystem::create_directories(folder_.File("pools/" + name));
    if (name == "local") spec.mutable_selection()->clear_cluster();
    Run(client, spec);
    // The first round is still open when they come.
    WorkUntilOver(client, name, "ada", 4);
    CampaignWatch watch(daemon_->port(), name);
    v1::CampaignEvent event;
    ASSERT_TRUE(watch.Next(&event));
    folder_.Write("more.csv", rows);
    std::filesystem::rename(folder_.File("more.csv"), folder_.File("pools/" + name + "/more.csv"));
    while (watch.Next(&event) && !event.has_items()) {
    }
    EXPECT_EQ(event.items().pool_rows(), 240);
    watch.Leave();
    WorkUntilOver(client, name, "ada");
  }
  EXPECT_EQ(client.ExportedBatches("job"), client.ExportedBatches("local"));
}

TEST_F(ClusterCampaignTest, ShowsWhatTheJobDoes) {
  StartDaemon(ClusterOptions());
  DaemonClient client = Client();
  Run(client, JobSpec("shown", "gate", 1));
  CampaignWatch watch(daemon_->port(), "shown");
  HeldJob job(folder_.path());
  v1::Campaign campaign = client.Get("shown");
  // The daemon notes it after it has started it.
  while (campaign.waiting_for(0).text().find("process") == std::string::npos) campaign = client.Get("shown");
  EXPECT_EQ(campaign.state(), v1::CAMPAIGN_STATE_RUNNING);
  ASSERT_EQ(campaign.waiting_for_size(), 1);
  EXPECT_EQ(campaign.waiting_for(0).text(),
            absl::StrCat("round 1 to be computed by a job of the launcher 'gate' (process ", job.process(), ")"));
  job.LetThrough();
  v1::CampaignEvent event;
  bool told_of_a_stage = false;
  while (watch.Next(&event) && !event.has_batch()) told_of_a_stage = told_of_a_stage || event.stage().round() == 1;
  watch.Leave();
  EXPECT_TRUE(told_of_a_stage);
}

TEST_F(ClusterCampaignTest, AJobThatIsKilledIsStartedAgain) {
  StartDaemon(ClusterOptions());
  DaemonClient client = Client();
  const v1::CampaignSpec spec = JobSpec("killed", "gate", 1);
  Run(client, spec);
  {
    const HeldJob first(folder_.path());
    ASSERT_EQ(kill(first.process(), SIGKILL), 0);
    ASSERT_TRUE(first.Ends());
  }
  HeldJob second(folder_.path());
  const v1::Campaign campaign = client.Get("killed");
  ASSERT_EQ(campaign.conditions_size(), 1);
  EXPECT_THAT(
      campaign.conditions(0).reason(),
      AllOf(HasSubstr("the job of round 1 (launcher 'gate') was ended by signal 9"), HasSubstr("printed nothing")));
  LeaveGateOpen();
  second.LetThrough();
  WorkUntilOver(client, "killed", "ada");
  EXPECT_EQ(client.ExportedBatches("killed"), BatchesWithoutJobs(client, spec));
  EXPECT_EQ(client.Get("killed").conditions_size(), 0);
}

TEST_F(ClusterCampaignTest, AJobThatFailsTwiceEndsTheCampaignWithItsLastLines) {
  StartDaemon(ClusterOptions());
  DaemonClient client = Client();
  Run(client, JobSpec("broken", "broken", 1));
  const v1::Campaign failed = Await(daemon_->port(), "broken", v1::CAMPAIGN_STATE_FAILED);
  EXPECT_THAT(
      failed.state_reason(),
      AllOf(HasSubstr("it failed twice: the job of round 1 (launcher 'broken') ended with exit code 75"),
            HasSubstr("starting\nrank 3 on node-7: out of memory \\xff"), HasSubstr("start the campaign again")));
  // What the message advises.
  v1::CampaignSpec changed;
  changed.mutable_selection()->mutable_cluster()->set_launcher("here");
  const grpc::Status updated = client.Update("broken", changed, {"selection.cluster"});
  ASSERT_TRUE(updated.ok()) << updated.error_message();
  ASSERT_TRUE(client.Start("broken").ok());
  WorkUntilOver(client, "broken", "ada");
  EXPECT_EQ(client.Get("broken").state(), v1::CAMPAIGN_STATE_DONE);
}

TEST_F(ClusterCampaignTest, ALauncherThatDoesNothingOrIsAbsentFailsTheCampaign) {
  StartDaemon(ClusterOptions());
  DaemonClient client = Client();
  Run(client, JobSpec("lazy", "lazy", 1));
  EXPECT_THAT(Await(daemon_->port(), "lazy", v1::CAMPAIGN_STATE_FAILED).state_reason(),
              AllOf(HasSubstr("ended with exit code 0 without a result"), HasSubstr("slurmstepd: out of memory")));
  Run(client, JobSpec("absent", "absent", 1));
  EXPECT_THAT(Await(daemon_->port(), "absent", v1::CAMPAIGN_STATE_FAILED).state_reason(),
              HasSubstr("cannot run '/there/is/no/such/launcher': No such file or directory"));
}

TEST_F(ClusterCampaignTest, AJobThatTakesTooLongIsEnded) {
  StartDaemon(ClusterOptions());
  DaemonClient client = Client();
  v1::CampaignSpec spec = JobSpec("slow", "stubborn", 1);
  spec.mutable_selection()->mutable_cluster()->mutable_timeout()->set_seconds(1);
  Run(client, spec);
  EXPECT_THAT(Await(daemon_->port(), "slow", v1::CAMPAIGN_STATE_FAILED).state_reason(),
              AllOf(HasSubstr("took longer than 1 seconds (selection.cluster.timeout)"), HasSubstr("waiting")));
}

TEST_F(ClusterCampaignTest, AJobEndsWhenItsCampaignIsPausedOrStoppedOrTheDaemonStops) {
  StartDaemon(ClusterOptions());
  DaemonClient client = Client();
  const v1::CampaignSpec spec = JobSpec("ended", "gate", 2);
  Run(client, spec);
  {
    const HeldJob job(folder_.path());
    ASSERT_TRUE(client.Pause("ended").ok());
    EXPECT_TRUE(job.Ends());
  }
  ASSERT_TRUE(client.Resume("ended").ok());
  {
    const HeldJob job(folder_.path());
    StopDaemon();
    EXPECT_TRUE(job.Ends());
    EXPECT_EQ(kill(job.process(), 0), -1) << "a process is left over";
  }
  StartDaemon(ClusterOptions());
  DaemonClient again = Client();
  HeldJob(folder_.path()).LetThrough();
  WorkUntilOver(again, "ended", "ada", 6);
  {
    const HeldJob job(folder_.path());
    ASSERT_TRUE(again.Stop("ended").ok());
    EXPECT_TRUE(job.Ends());
  }
  const Batches batches = again.ExportedBatches("ended");
  Batches expected = BatchesWithoutJobs(again, spec);
  expected.erase(2);
  EXPECT_EQ(batches, expected);
  EXPECT_TRUE(again.Delete("ended").ok());
}

TEST_F(ClusterCampaignTest, OnlyLaunchersOfTheServersConfigurationAreStarted) {
  StartDaemon(ClusterOptions());
  DaemonClient client = Client();
  const std::string forbidden = absl::StrCat("touch ", folder_.File("touched"));
  const grpc::Status refused = client.Create(JobSpec("refused", forbidden));
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(),
              AllOf(HasSubstr("selection.cluster.launcher"), HasSubstr("it has: absent, broken, gate, here"),
                    HasSubstr("'cluster_launchers'")));
  // The command of a launcher, as the configuration has it, names it too.
  ASSERT_TRUE(client.Create(JobSpec("allowed", "env")).ok());
  v1::CampaignSpec changed;
  changed.mutable_selection()->mutable_cluster()->set_launcher("env " + forbidden);
  const grpc::Status update = client.Update("allowed", changed, {"selection.cluster"});
  EXPECT_EQ(update.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  // The configuration counts when the job is started.
  StopDaemon();
  StartDaemon();
  DaemonClient after = Client();
  ASSERT_TRUE(after.Start("allowed").ok());
  EXPECT_THAT(Await(daemon_->port(), "allowed", v1::CAMPAIGN_STATE_FAILED).state_reason(),
              AllOf(HasSubstr("'env' is not a launcher that this server may start"), HasSubstr("it has none")));
  EXPECT_FALSE(std::filesystem::exists(folder_.File("touched")));
}

TEST_F(ClusterCampaignTest, TheJobOfADaemonThatIsKilledEndsAndTheNextOneSelectsTheSame) {
  folder_.Write("serve.yaml", absl::StrCat("cluster_launchers:\n  gate: ", folder_.File("gate.sh"), "\n"));
  DaemonProcess daemon({"--config", folder_.File("serve.yaml"), "--data", folder_.File("data"), "--pools",
                        folder_.File("pools"), "--no-tokens"});
  daemon.Spawn();
  const v1::CampaignSpec spec = JobSpec("killed", "gate", 2);
  DaemonClient client(daemon.port(), "");
  Run(client, spec);
  HeldJob(folder_.path()).LetThrough();
  WorkUntilOver(client, "killed", "ada", 6);
  {
    const HeldJob job(folder_.path());
    daemon.Kill();
    EXPECT_TRUE(job.Ends());
  }
  daemon.Spawn();
  HeldJob again(folder_.path());
  LeaveGateOpen();
  again.LetThrough();
  WorkUntilOver(client, "killed", "ada");
  EXPECT_EQ(client.ExportedBatches("killed"), BatchesWithoutJobs(client, spec));
}

TEST_F(ClusterCampaignTest, AJobWhosePlanIsRemovedEndsItself) {
  // The launcher leaves a job behind that no signal reaches, as one on another machine.
  ASSERT_EQ(mkfifo(folder_.File("said").c_str(), 0600), 0);
  WriteScript("remote.sh", absl::StrCat("setsid sh -c 'read word < ", folder_.File("gate"), "; exec \"$@\" > ",
                                        folder_.File("said"), " 2>&1' sh \"$@\"\n"));
  pipeline::DaemonOptions options = ClusterOptions();
  options.launchers.commands["remote"] = folder_.File("remote.sh");
  StartDaemon(options);
  DaemonClient client = Client();
  Run(client, JobSpec("remote", "remote", 1));
  HeldJob job(folder_.path());
  // It has read its plan when it opens this, and comes no further.
  const std::string manifest = folder_.File("data/campaigns/remote/pool/imported/manifest");
  std::filesystem::rename(manifest, manifest + ".kept");
  ASSERT_EQ(mkfifo(manifest.c_str(), 0600), 0);
  job.LetThrough();
  std::ifstream output(folder_.File("said"));
  const int held = open(manifest.c_str(), O_WRONLY);
  ASSERT_GE(held, 0);
  StopDaemon();
  const std::string said(std::istreambuf_iterator<char>(output), {});
  EXPECT_THAT(said, AllOf(HasSubstr("ended, because its plan"), HasSubstr("was removed")));
  close(held);
}

TEST_F(ClusterCampaignTest, SelectsTheSameOverMpirun) {
  const std::string mpirun = FULCRUM_MPIRUN;
  if (mpirun.empty()) GTEST_SKIP() << "the program was built without FULCRUM_MPI";
  folder_.Write("pools/clouds.csv", CloudsText(3000));
  pipeline::DaemonOptions options = ClusterOptions();
  options.launchers.commands["three"] =
      absl::StrCat(mpirun, " --allow-run-as-root --oversubscribe --bind-to none -n 3");
  StartDaemon(options);
  DaemonClient client = Client();
  for (const char* const strategy : {"dbalevs", "adaptive-herding"}) {
    const std::string name = absl::StrCat("mpi-", strategy);
    v1::CampaignSpec spec = JobSpec(name, "three");
    spec.mutable_selection()->set_strategy(strategy);
    Run(client, spec);
    WorkUntilOver(client, name, "ada");
    v1::CampaignSpec local = spec;
    local.set_name(absl::StrCat("local-", strategy));
    local.mutable_selection()->clear_cluster();
    Run(client, local);
    WorkUntilOver(client, local.name(), "ada");
    EXPECT_EQ(client.ExportedBatches(name), client.ExportedBatches(local.name())) << strategy;
  }
  v1::CampaignSpec refused = JobSpec("refused", "three");
  refused.mutable_selection()->set_strategy("badge");
  Run(client, refused);
  EXPECT_THAT(Await(daemon_->port(), "refused", v1::CAMPAIGN_STATE_FAILED).state_reason(),
              HasSubstr("does not run over several processes"));
}

}  // namespace
}  // namespace fulcrum::testing
