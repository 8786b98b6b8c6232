// `fulcrum experiment`: every strategy on every task, as the paper does it, in one command.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "pipeline/commands/command_line.h"
#include "pipeline/experiment/curves.h"
#include "pipeline/experiment/experiment.h"
#include "pipeline/experiment/experiment_spec.h"
#include "pipeline/experiment/report/report_page.h"
#include "pipeline/round/progress.h"
#include "pipeline/text/text_sink.h"
#include "stages/core/status_macros.h"
#include "tbb/global_control.h"
#include "tbb/info.h"

namespace fulcrum::pipeline {
namespace {

constexpr char kExperimentFooter[] = R"(A spec is a YAML file; these are in experiments/:
  quick.yaml             generated ringnorm and twonorm; no data files, under a minute
  default.yaml           the default strategy on all generators and the shared data, one query per round; hours
  default_batch.yaml     the same with ten queries per round
  paper_sequential.yaml  ALEVS against five others, one query per round
  paper_batch.yaml       DBALEVS against four others, ten queries per round
  imbalance.yaml         classes 5:1 and 10:1, judged by F1
  rank.yaml              ALEVS with several shares tau of the trace
  noisy.yaml             annotators who make mistakes: majorities and the consensus of Dawid and Skene
  equal_noise.yaml       the same with five annotators who are right in 80 percent of their answers
  spammers.yaml          annotators who answer at random are paused
  costs.yaml             labels that cost 1 to 10: four strategies with and without a look at the costs
  stream.yaml            rows that arrive one at a time against selection from the whole pool
A task's data is what `fulcrum import` reads (a file of any format, a folder, a glob, a file:// URI) or a pool that it has
made; the labels are in the column 'label', or in the one that the import was told. A task whose data is not in the data
folder is reported and left out.

Output files, in the folder --out:
  report.html   learning curves, wins and losses next to the paper's, regret, selection times, settings
  curves.csv    task,strategy,run,round,labels,accuracy,f1,positive_share,train_seconds,predict_seconds,
                select_seconds,macro_f1,calibration_error,label_accuracy,paused_spammers,paused_others,cost: every point of every curve; the strategy 'full-data' knows all labels
  wtl.csv       rounds won, tied and lost, and the paper's counts
  regret.csv    task,strategy,area,regret,share,labels_to_95: area under each curve, what is missing to the best,
                and with how many labels it has 95 percent of what all labels give
  journal.tsv   finished runs; --resume continues from it. The other files are written at the end.

The same spec and seed give the same curves, except for the seconds, on any number of threads and after
interruptions.

Example:
  fulcrum experiment --spec experiments/quick.yaml --out quick
)";

constexpr int kMostExperimentThreads = 4096;

struct ExperimentCommandOptions {
  std::string spec;
  std::string data = ".";
  std::string out;
  std::string tasks;
  std::string strategies;
  std::size_t runs = 0;
  std::size_t rounds = 0;
  std::string memory = {};
  int threads = 1;
  bool resume = false;
  bool quiet = false;
  bool verbose = false;
};

std::vector<std::string> SplitNames(const std::string& text) {
  if (text.empty()) return {};
  return absl::StrSplit(text, ',', absl::SkipWhitespace());
}

absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error && std::filesystem::is_directory(path)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--out: cannot make the folder '", path, "': ", error ? error.message() : "a file has that name"));
}

absl::Status WriteOutputs(const ExperimentSpec& spec, const ExperimentOptions& options,
                          const ExperimentResult& result) {
  const std::pair<std::string, std::string> outputs[] = {
      {"curves.csv", CurvesTable(result.curves)},
      {"wtl.csv", WtlTable(spec, CompareWithSubject(spec, result.curves))},
      {"regret.csv", RegretTable(ComputeRegret(result.curves, spec.metric))},
      {"report.html", ReportPage(spec, options, result)},
  };
  std::vector<std::unique_ptr<TextSink>> sinks;
  for (const auto& [name, text] : outputs) {
    const std::string path = (std::filesystem::path(options.out_folder) / name).string();
    FULCRUM_ASSIGN_OR_RETURN(std::unique_ptr<TextSink> sink, OpenTextSink(path));
    FULCRUM_RETURN_IF_ERROR(sink->Write(text));
    FULCRUM_RETURN_IF_ERROR(sink->Finish());
    sinks.push_back(std::move(sink));
  }
  for (const std::unique_ptr<TextSink>& sink : sinks) FULCRUM_RETURN_IF_ERROR(sink->Commit());
  return absl::OkStatus();
}

void PrintNotes(const ExperimentSpec& spec, const ExperimentResult& result) {
  for (const SkippedTask& task : result.skipped) {
    std::fprintf(stderr, "fulcrum experiment: note: task %s was left out: %s\n", task.name.c_str(),
                 task.reason.c_str());
  }
  for (const TaskSummary& task : result.tasks) {
    const std::size_t rounds = result.curves.LastRound(task.name);
    if (rounds >= spec.rounds) continue;
    std::fprintf(stderr,
                 "fulcrum experiment: note: the pool of task %s (%zu rows) ran out after %zu of %zu rounds; its curves "
                 "end there\n",
                 task.name.c_str(), task.train_rows, rounds, spec.rounds);
  }
  if (result.foreign_curves > 0) {
    std::fprintf(stderr,
                 "fulcrum experiment: note: %zu curves in the journal were made with other settings, data or version, "
                 "and were not used\n",
                 result.foreign_curves);
  }
}

void PrintSummary(const ExperimentSpec& spec, const ExperimentOptions& options, const ExperimentResult& result) {
  const std::vector<TaskRegret> regrets = ComputeRegret(result.curves, spec.metric);
  std::printf("%-16s %9s %9s   (area below the best strategy's, in percent, over %zu tasks)\n", "strategy", "mean",
              "largest", result.tasks.size());
  for (const RegretSummary& summary : SummarizeRegret(regrets)) {
    std::printf("%-16s %9.2f %9.2f\n", summary.strategy.c_str(), 100 * summary.mean_share, 100 * summary.largest_share);
  }
  std::printf("%zu curves in %s: %s/report.html\n", result.curves.all().size(), DurationText(result.seconds).c_str(),
              options.out_folder.c_str());
}

absl::Status CheckOptions(const ExperimentCommandOptions& options) {
  if (options.spec.empty()) {
    return absl::InvalidArgumentError("--spec is missing; name a YAML file such as experiments/quick.yaml");
  }
  if (options.out.empty()) return absl::InvalidArgumentError("--out is missing; name a folder for the results");
  if (options.threads < 1 || options.threads > kMostExperimentThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("--threads is ", options.threads, "; it must be between 1 and ", kMostExperimentThreads));
  }
  return absl::OkStatus();
}

absl::Status Experiment(const ExperimentCommandOptions& command) {
  FULCRUM_RETURN_IF_ERROR(CheckOptions(command));
  FULCRUM_ASSIGN_OR_RETURN(ExperimentSpec spec, LoadExperimentSpec(command.spec));
  FULCRUM_RETURN_IF_ERROR(ChangeSpec({.tasks = SplitNames(command.tasks),
                                      .strategies = SplitNames(command.strategies),
                                      .runs = command.runs,
                                      .rounds = command.rounds},
                                     spec));
  FULCRUM_RETURN_IF_ERROR(MakeFolder(command.out));
  ExperimentOptions options{.data_folder = command.data,
                            .out_folder = command.out,
                            .resume = command.resume,
                            .threads = static_cast<std::size_t>(command.threads)};
  if (!command.memory.empty()) {
    FULCRUM_ASSIGN_OR_RETURN(const ingest::InputLimits limits, LimitsOf(command.memory));
    options.memory_bytes = static_cast<std::size_t>(limits.max_memory_bytes);
  }
  const tbb::global_control threads(tbb::global_control::max_allowed_parallelism, options.threads);
  Progress progress("fulcrum experiment", ChooseProgressStyle(command.quiet, command.verbose));
  const absl::StatusOr<ExperimentResult> result = RunExperiment(spec, options, progress);
  FULCRUM_RETURN_IF_ERROR(command.memory.empty() ? result.status() : WithMemoryAdvice(result.status(), command.memory));
  progress.Clear();
  FULCRUM_RETURN_IF_ERROR(WriteOutputs(spec, options, *result));
  if (!command.quiet) {
    PrintNotes(spec, *result);
    PrintSummary(spec, options, *result);
  }
  return absl::OkStatus();
}

CommandRun AddExperiment(CLI::App& app) {
  auto options = std::make_shared<ExperimentCommandOptions>();
  options->threads = std::max(1, tbb::info::default_concurrency());
  app.add_option("--spec", options->spec, "What to run: a YAML file")->type_name("FILE");
  app.add_option("--data", options->data, "Folder of the data files the spec names")
      ->type_name("DIR")
      ->capture_default_str();
  app.add_option("--out", options->out, "Folder for the results; created if it does not exist")->type_name("DIR");
  app.add_option("--tasks", options->tasks, "Only these tasks of the spec")->type_name("A,B,...");
  app.add_option("--strategies", options->strategies, "Only these strategies; any that 'select' knows may be named")
      ->type_name("A,B,...");
  app.add_option("--runs", options->runs, "Runs of each task, instead of the spec's")
      ->type_name("N")
      ->check(WholeNumber());
  app.add_option("--rounds", options->rounds, "Rounds of each run, instead of the spec's")
      ->type_name("N")
      ->check(WholeNumber());
  app.add_option("--threads", options->threads, "Processor cores to use")->type_name("N")->capture_default_str();
  app.add_option("--memory", options->memory,
                 "Memory that the command may use; default: half of the machine's, or more if a single run needs it")
      ->type_name("SIZE");
  app.add_flag("--resume", options->resume, "Continue the experiment in --out");
  app.add_flag("--quiet", options->quiet, "Print errors only");
  app.add_flag("--verbose", options->verbose, "Print a line for each curve");
  app.footer(absl::StrCat(kExperimentFooter, "\n", ExitCodeHelp()));
  return [options] { return Experiment(*options); };
}

}  // namespace

Command ExperimentCommand() {
  return {"experiment", "Experiments", "Compare strategies on data whose labels are known", AddExperiment};
}

}  // namespace fulcrum::pipeline
