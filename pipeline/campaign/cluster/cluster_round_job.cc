#include "pipeline/campaign/cluster/cluster_round_job.h"

#include <cstdint>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "pipeline/text/status.h"
#include "pipeline/text/structured_log.h"
#include "pipeline/text/text_sink.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

// How soon a request to stop is noticed, and progress shown.
constexpr std::chrono::milliseconds kJobLook{100};

std::vector<std::string> WordsOf(const std::string& command) {
  return absl::StrSplit(command, absl::ByAnyChar(" \t\n"), absl::SkipEmpty());
}

/// The last lines of what a job printed, for a message.
std::string LastLines(const std::string& output) {
  constexpr std::size_t kMostLines = 10, kMostLineBytes = 500;
  std::vector<std::string> lines = absl::StrSplit(output, '\n', absl::SkipWhitespace());
  if (lines.size() > kMostLines) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(kMostLines));
  for (std::string& line : lines) {
    if (line.size() > kMostLineBytes) line.resize(kMostLineBytes);
    line = PrintableText(line);
  }
  return absl::StrJoin(lines, "\n");
}

std::string DurationText(std::chrono::milliseconds time) {
  return absl::StrFormat("%g seconds", std::chrono::duration<double>(time).count());
}

}  // namespace

absl::StatusOr<std::vector<std::string>> FindLauncher(const ClusterLaunchers& launchers, const std::string& launcher) {
  std::vector<std::string> names;
  for (const auto& [name, command] : launchers.commands) {
    if (name == launcher || WordsOf(command) == WordsOf(launcher)) return WordsOf(command);
    names.push_back(name);
  }
  const std::string known = names.empty() ? "; it has none" : absl::StrCat("; it has: ", absl::StrJoin(names, ", "));
  return absl::InvalidArgumentError(
      absl::StrCat("'", launcher.substr(0, 200), "' is not a launcher that this server may start", known,
                   ". Who runs the server adds launchers as 'cluster_launchers' to its configuration"));
}

absl::Status CheckLauncher(const ClusterLaunchers& launchers, const CampaignPlan& plan) {
  if (!plan.cluster) return absl::OkStatus();
  constexpr char kField[] = "selection.cluster.launcher";
  const absl::Status status = FindLauncher(launchers, plan.cluster->launcher).status();
  if (status.ok()) return status;
  const std::string what(status.message());
  return WithFieldProblems(absl::InvalidArgumentError(absl::StrCat(kField, ": ", what)), {{kField, what}});
}

ClusterRoundJob::ClusterRoundJob(const ClusterLaunchers& launchers, const std::string& folder)
    : launchers_(launchers), folder_(std::filesystem::absolute(folder).string()) {
  RemoveFiles();
}

void ClusterRoundJob::RemoveFiles() const {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

absl::StatusOr<RoundResult> ClusterRoundJob::RunOnce(const job::RoundPlan& plan, const std::string& folder,
                                                     const ClusterPlan& cluster, std::size_t classes,
                                                     const ProgressCallback& progress, const Watcher& watcher,
                                                     const std::stop_token& stop, std::string& failure) const {
  const RoundFiles files(folder);
  absl::StatusOr<std::vector<std::string>> command = FindLauncher(launchers_, cluster.launcher);
  if (!command.ok()) {
    return absl::FailedPreconditionError(absl::StrCat("selection.cluster.launcher: ", command.status().message()));
  }
  FULCRUM_RETURN_IF_ERROR(files.WritePlan(plan));
  command->insert(command->end(), {launchers_.program, "round", "--plan", files.plan()});
  FULCRUM_ASSIGN_OR_RETURN(const auto process, LaunchedProcess::Start(*command));
  const auto begun = std::chrono::steady_clock::now();
  Log(LogLevel::kInfo, "round started as a job",
      {{"campaign", plan.campaign()},
       {"round", plan.round()},
       {"launcher", cluster.launcher},
       {"process", std::int64_t{process->id()}}});
  const std::string what =
      absl::StrCat("by a job of the launcher '", cluster.launcher, "' (process ", process->id(), ")");
  watcher(what);
  std::optional<RoundFiles::Progress> shown;
  const auto show_progress = [&] {
    auto now = files.ReadProgress();
    if (!now || now == shown) return;
    progress(now->stage, now->done, now->total);
    watcher(absl::StrCat(what, ", at stage '", now->stage, "'"));
    shown = std::move(now);
  };
  bool in_time = true;
  while (!process->WaitFor(kJobLook)) {
    if (stop.stop_requested()) {
      // Those on other machines end when their plan is gone.
      RemoveFiles();
      process->Stop();
      return absl::CancelledError("the job of the round was ended on request");
    }
    in_time = std::chrono::steady_clock::now() - begun < cluster.timeout;
    if (!in_time) break;
    show_progress();
  }
  show_progress();
  if (!in_time) {
    process->Stop();
    failure = absl::StrCat("took longer than ", DurationText(cluster.timeout), " (selection.cluster.timeout)");
  } else if (auto outcome = files.ReadOutcome(plan, classes)) {
    return *std::move(outcome);
  } else {
    failure = absl::StrCat(process->DescribeEnd(), " without a result");
  }
  const std::string lines = LastLines(absl::StrCat(process->output(), "\n", files.ReadOutput()));
  absl::StrAppend(&failure, lines.empty() ? "; it printed nothing" : "; it printed last:\n", lines);
  return absl::UnavailableError(failure);
}

absl::StatusOr<RoundResult> ClusterRoundJob::Run(job::RoundPlan plan, const ClusterPlan& cluster, std::size_t classes,
                                                 const ProgressCallback& progress, const Watcher& watcher,
                                                 const std::stop_token& stop) {
  // Ends what an earlier daemon has left behind.
  RemoveFiles();
  std::random_device random;
  plan.set_token(absl::StrFormat("%08x%08x", random(), random()));
  const std::string folder = absl::StrFormat("%s/%06d-%s", folder_, plan.round(), plan.token());
  std::string failure;
  absl::StatusOr<RoundResult> result = RunOnce(plan, folder, cluster, classes, progress, watcher, stop, failure);
  watcher("");
  RemoveFiles();
  if (failure.empty()) {
    if (result.ok()) failed_round_ = 0;
    return result;
  }
  const bool again = std::exchange(failed_round_, plan.round()) == plan.round();
  const std::string message =
      absl::StrCat("the job of round ", plan.round(), " (launcher '", cluster.launcher, "') ", failure);
  if (!again) return absl::UnavailableError(message);
  failed_round_ = 0;
  return absl::InternalError(absl::StrCat(
      "it failed twice: ", message, "\nFix the cause, or change selection.cluster, and start the campaign again"));
}

}  // namespace fulcrum::pipeline
