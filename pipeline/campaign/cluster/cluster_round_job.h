// A round that is computed by a job: processes that a launcher (mpirun, sbatch, a script) starts, possibly on other
// machines, instead of by the daemon.
//
// The job is `LAUNCHER FULCRUM round --plan FILE`. It gets the labels and the settings, and returns the batch, the
// model and the scores, through files in the campaign's folder, which all of its machines must see under the same path.
// What it computes is a function of the plan, so one that was killed is simply started again. A job whose daemon is
// gone ends: the kernel ends its launcher, and the processes end themselves when their plan is removed, which is done
// before the next job is started and when the campaign is opened.
//
// A launcher is a command line, so only those in the daemon's configuration are used. Used by one thread at a time.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/campaign/campaign_plan.h"
#include "pipeline/campaign/cluster/round_job.pb.h"
#include "pipeline/round/round.h"
#include "pipeline/round/tuning.h"

namespace fulcrum::pipeline {

// A process that the daemon starts, in a process group of its own, and whose last output it keeps.
//
// It is ended when the object goes, and by the kernel if the daemon dies. Used by one thread, on which it is started
// and which outlives it: the death of that thread counts as that of the daemon.

class LaunchedProcess {
 public:
  /// Between the request to end, SIGTERM, and SIGKILL. Shorter than what deleting a campaign waits for its round.
  static constexpr std::chrono::milliseconds kTimeToEnd{2000};

  /// Runs command[0], searched in PATH, with the rest as its arguments, no input, and the daemon's environment.
  static absl::StatusOr<std::unique_ptr<LaunchedProcess>> Start(const std::vector<std::string>& command);
  ~LaunchedProcess() { Stop(); }
  LaunchedProcess(const LaunchedProcess&) = delete;
  LaunchedProcess& operator=(const LaunchedProcess&) = delete;

  pid_t id() const { return process_; }
  /// Waits up to so long, reading the output. True once the process has ended; others of its group are killed then.
  bool WaitFor(std::chrono::milliseconds time);
  /// Ends the process group: SIGTERM, and SIGKILL if it has not ended in time.
  void Stop();
  /// After the end: "ended with exit code 1" or "was ended by signal 9 (Killed)".
  std::string DescribeEnd() const;
  /// What it wrote to its standard output and error, without the beginning if that is long.
  const std::string& output() const { return tail_; }

 private:
  LaunchedProcess(pid_t process, int output) : process_(process), output_(output) {}
  /// Reads the available output, and waits at most this long for some.
  void ReadOutput(std::chrono::milliseconds time);
  bool HasEnded();

  const pid_t process_;
  int output_;  // -1 after its end
  bool ended_ = false;
  int wait_status_ = 0;
  std::string tail_;
};

/// What the daemon allows to be started.
struct ClusterLaunchers {
  std::string program = {};                          ///< fulcrum
  std::map<std::string, std::string> commands = {};  ///< by name; split at white space, not read by a shell
};

/// The words of the launcher with this name, or with this very command. InvalidArgument, with the names of those that
/// there are, for any other.
absl::StatusOr<std::vector<std::string>> FindLauncher(const ClusterLaunchers& launchers, const std::string& launcher);
/// The same for the launcher that a specification names, if it names one.
absl::Status CheckLauncher(const ClusterLaunchers& launchers, const CampaignPlan& plan);

class ClusterRoundJob {
 public:
  /// `folder` is for the exchange; it is removed before and after a job.
  ClusterRoundJob(const ClusterLaunchers& launchers, const std::string& folder);

  /// What is known about the running job, for people.
  using Watcher = std::function<void(const std::string& description)>;

  /// Starts the job of this plan, whose token and folder of the plan are set here, and waits for its end.
  /// An error of the round itself is returned as it is; Cancelled if `stop` ended the job. A job that failed otherwise
  /// (it was killed, took too long, or ended without a result) is Unavailable the first time, and Internal the second
  /// time for the same round, with what it printed last.
  absl::StatusOr<RoundResult> Run(job::RoundPlan plan, const ClusterPlan& cluster, std::size_t classes,
                                  const ProgressCallback& progress, const Watcher& watcher,
                                  const std::stop_token& stop);

 private:
  absl::StatusOr<RoundResult> RunOnce(const job::RoundPlan& plan, const std::string& folder, const ClusterPlan& cluster,
                                      std::size_t classes, const ProgressCallback& progress, const Watcher& watcher,
                                      const std::stop_token& stop, std::string& failure) const;
  void RemoveFiles() const;

  const ClusterLaunchers& launchers_;
  const std::string folder_;
  std::int64_t failed_round_ = 0;  // whose job failed once; 0: none
};

// The files by which a daemon and the job of a round (`fulcrum round`) work together, in a folder of the campaign.
//
//   plan       the round: labels, settings and where the pool is; the job ends itself when it is gone
//   progress   what the job is doing
//   output     what the job prints, if its launcher puts it there (a scheduler does not print it itself)
//   outcome    the batch, the model and the scores, or an error; appears when it is complete
//
// Functions and plain values; thread-safe.

class RoundFiles {
 public:
  /// In this folder.
  explicit RoundFiles(std::string folder) : folder_(std::move(folder)) {}
  /// Next to this plan.
  static RoundFiles NextTo(const std::string& plan);

  std::string plan() const { return folder_ + "/plan"; }

  absl::Status WritePlan(const job::RoundPlan& plan) const;
  /// NotFound or DataLoss if there is none that can be read.
  absl::StatusOr<job::RoundPlan> ReadPlan() const;

  struct Progress {
    std::string stage = {};
    std::size_t done = 0;
    std::size_t total = 0;
    friend bool operator==(const Progress&, const Progress&) = default;
  };
  /// Best effort: a round does not fail because its progress cannot be shown.
  void WriteProgress(const Progress& progress) const;
  std::optional<Progress> ReadProgress() const;

  /// The end of what the job printed there; empty if it did not.
  std::string ReadOutput() const;

  /// What the round of this plan ended with.
  absl::Status WriteOutcome(const job::RoundPlan& plan, const absl::StatusOr<RoundResult>& result) const;
  /// The error or the result that the job wrote for this plan. Nothing if it wrote none, or none that is complete and
  /// fits the plan.
  std::optional<absl::StatusOr<RoundResult>> ReadOutcome(const job::RoundPlan& plan, std::size_t classes) const;

 private:
  std::string folder_;
};

}  // namespace fulcrum::pipeline
