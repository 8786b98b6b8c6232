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

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/campaign/campaign_plan.h"
#include "pipeline/campaign/cluster/round_job.pb.h"
#include "pipeline/round/round.h"

namespace fulcrum::pipeline {

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

}  // namespace fulcrum::pipeline
