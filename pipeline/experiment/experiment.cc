#include "pipeline/experiment/experiment.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "pipeline/experiment/curves.h"
#include "pipeline/experiment/task_data.h"
#include "pipeline/text/spec_reader.h"
#include "pipeline/text/version.h"
#include "stages/core/files.h"
#include "stages/core/parallel.h"
#include "stages/core/random.h"
#include "stages/core/status_macros.h"
#include "stages/select/strategy.h"

namespace fulcrum::pipeline {
namespace {

template <typename Item>
std::vector<std::string> NamesOf(const std::vector<Item>& items) {
  std::vector<std::string> names;
  names.reserve(items.size());
  for (const Item& item : items) names.push_back(item.name);
  return names;
}

template <typename Item>
const Item* FindByName(const std::vector<Item>& items, const std::string& name) {
  for (const Item& item : items) {
    if (item.name == name) return &item;
  }
  return nullptr;
}

absl::Status UnknownName(const std::string& option, const std::string& name, const std::vector<std::string>& names) {
  const std::string nearest = NearestName(name, names);
  return absl::InvalidArgumentError(absl::StrCat(option, ": there is no '", name, "' in the spec",
                                                 nearest.empty() ? absl::StrCat("; it has ", absl::StrJoin(names, ", "))
                                                                 : absl::StrCat("; did you mean '", nearest, "'?")));
}

absl::Status KeepTasks(const std::vector<std::string>& names, ExperimentSpec& spec) {
  std::vector<TaskSettings> kept;
  for (const std::string& name : names) {
    const TaskSettings* task = FindByName(spec.tasks, name);
    if (task == nullptr) return UnknownName("--tasks", name, NamesOf(spec.tasks));
    kept.push_back(*task);
  }
  spec.tasks = std::move(kept);
  return absl::OkStatus();
}

absl::Status KeepStrategies(const std::vector<std::string>& names, ExperimentSpec& spec) {
  std::vector<StrategySettings> kept;
  for (const std::string& name : names) {
    if (const StrategySettings* strategy = FindByName(spec.strategies, name)) {
      kept.push_back(*strategy);
    } else if (select::MakeStrategy(name).ok()) {
      kept.push_back({.name = name, .strategy = name});
    } else {
      std::vector<std::string> known = NamesOf(spec.strategies);
      for (const select::StrategyEntry& entry : select::Strategies()) known.push_back(entry.name);
      return UnknownName("--strategies", name, known);
    }
  }
  spec.strategies = std::move(kept);
  if (FindByName(spec.strategies, spec.comparison.subject) == nullptr) spec.comparison.subject.clear();
  return absl::OkStatus();
}

absl::Status RefuseOldResults(const ExperimentOptions& options, const RunJournal& journal) {
  if (options.resume || journal.entries().empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("'", options.out_folder, "' has ", journal.entries().size(),
                                                    " finished runs already; add --resume to go on from there, or "
                                                    "choose another --out"));
}

/// The task with its data, or the reason why it is skipped.
struct LoadedTask {
  const TaskSettings* settings = nullptr;
  std::unique_ptr<TaskData> data = {};
  std::unique_ptr<RunSplits> splits = {};
};

absl::StatusOr<LoadedTask> LoadTask(const ExperimentSpec& spec, const TaskSettings& task,
                                    const ExperimentOptions& options) {
  const std::string& folder = options.data_folder;
  LoadedTask loaded{.settings = &task};
  ingest::InputLimits limits;
  if (options.memory_bytes > 0) limits.max_memory_bytes = static_cast<std::int64_t>(options.memory_bytes);
  FULCRUM_ASSIGN_OR_RETURN(TaskData data, LoadTaskData(task, folder, limits));
  loaded.data = std::make_unique<TaskData>(std::move(data));
  FULCRUM_ASSIGN_OR_RETURN(RunSplits splits, RunSplits::Load(spec, task, *loaded.data, folder));
  loaded.splits = std::make_unique<RunSplits>(std::move(splits));
  return loaded;
}

TaskSummary Summarize(const ExperimentSpec& spec, const LoadedTask& task, const TaskRunsResult& runs) {
  return {.name = task.settings->name,
          .rows = task.data->labels.size(),
          .features = task.data->features.cols(),
          .train_rows = runs.train_rows,
          .test_rows = runs.test_rows,
          .given_halves = std::min(spec.runs, task.splits->given_halves()),
          .given_starts = std::min(spec.runs, task.splits->given_starts())};
}

}  // namespace

absl::Status ChangeSpec(const ExperimentChanges& changes, ExperimentSpec& spec) {
  if (!changes.tasks.empty()) FULCRUM_RETURN_IF_ERROR(KeepTasks(changes.tasks, spec));
  if (!changes.strategies.empty()) FULCRUM_RETURN_IF_ERROR(KeepStrategies(changes.strategies, spec));
  if (changes.runs > 0) spec.runs = changes.runs;
  if (changes.rounds > 0) spec.rounds = changes.rounds;
  return absl::OkStatus();
}

namespace {

/// What is left for runs when the data is in memory; 0 if there is no limit.
absl::StatusOr<std::size_t> MemoryForRuns(const ExperimentOptions& options, const TaskData& data) {
  if (options.memory_bytes == 0) return 0;
  const std::size_t taken = data.features.rows() * data.features.stride() * sizeof(double) +
                            data.labels.size() * (sizeof(ClassIndex) + sizeof(std::string));
  if (taken < options.memory_bytes) return options.memory_bytes - taken;
  return absl::ResourceExhaustedError(
      absl::StrCat("the data takes ", taken >> 20, " MiB of the ", options.memory_bytes >> 20, " MiB that there are"));
}

}  // namespace

absl::StatusOr<ExperimentResult> RunExperiment(const ExperimentSpec& spec, const ExperimentOptions& options,
                                               Progress& progress) {
  const auto start = std::chrono::steady_clock::now();
  const std::string journal_path = (std::filesystem::path(options.out_folder) / "journal.tsv").string();
  FULCRUM_ASSIGN_OR_RETURN(const std::unique_ptr<RunJournal> journal, RunJournal::Open(journal_path));
  FULCRUM_RETURN_IF_ERROR(RefuseOldResults(options, *journal));
  ExperimentResult result;
  std::vector<Curve> curves;
  const std::size_t curves_per_task = spec.runs * CurvesOfRun(spec);
  JobProgress job{.progress = progress, .total = spec.tasks.size() * curves_per_task};
  for (const TaskSettings& task : spec.tasks) {
    absl::StatusOr<LoadedTask> loaded = LoadTask(spec, task, options);
    if (absl::IsNotFound(loaded.status())) {
      result.skipped.push_back({task.name, std::string(loaded.status().message())});
      job.total -= curves_per_task;
      continue;
    }
    FULCRUM_RETURN_IF_ERROR(loaded.status());
    FULCRUM_ASSIGN_OR_RETURN(const std::size_t memory, MemoryForRuns(options, *loaded->data));
    FULCRUM_ASSIGN_OR_RETURN(
        TaskRunsResult runs,
        RunTask({spec, task, *loaded->data, *loaded->splits, options.threads, memory}, *journal, job));
    result.resumed_curves += runs.resumed;
    result.tasks.push_back(Summarize(spec, *loaded, runs));
    for (Curve& curve : runs.curves) curves.push_back(std::move(curve));
  }
  if (result.tasks.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("no task has its data in '", options.data_folder,
                                                      "'; the first one: ", result.skipped.front().reason));
  }
  result.foreign_curves = journal->entries().size() - std::min(journal->entries().size(), result.resumed_curves);
  result.curves = CurveSet(std::move(curves));
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

namespace {

/// The memory that all runs together may use if no limit is given.
std::size_t HalfOfTheMachine() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) / 2;
}

constexpr std::size_t kLeastForRounds = std::size_t{32} << 20;

std::uint64_t FingerprintOf(const RowList& rows) {
  return ChecksumOf({reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(RowIndex)});
}

/// A fingerprint of everything that determines a curve; curves with another fingerprint are not reused.
std::uint64_t FingerprintOf(const RoundSpec& spec, std::size_t rounds, const TaskData& data, const Split& split,
                            const std::string& normalize, const std::string& crowd) {
  const bool full_data = spec.strategy == kFullData;
  std::string text = absl::StrFormat("%s|%s|%s|%.17g|%d|%d|%016x|%016x|%016x|%016x", ProgramVersion(), spec.strategy,
                                     kernel::DescribeKernel(spec.svm.kernel), spec.svm.c, data.positive,
                                     data.labels.size(), data.checksum, FingerprintOf(split.train),
                                     FingerprintOf(split.test), full_data ? 0 : FingerprintOf(split.start));
  if (!full_data) {
    absl::StrAppendFormat(&text, "|%d|%d|%s|%.17g|%.17g|%d|%s|%d", spec.batch, rounds,
                          kernel::DescribeKernel(spec.leverage_kernel), spec.tau, spec.alpha,
                          static_cast<int>(spec.leverage_scale), spec.engine, spec.seed);
    if (spec.landmarks > 0) absl::StrAppendFormat(&text, "|%d", spec.landmarks);
    if (!spec.refine_landmarks) absl::StrAppend(&text, "|not refined");
    // The engine may be another one.
    if (spec.memory_bytes > 0) absl::StrAppendFormat(&text, "|%d bytes", spec.memory_bytes);
  }
  if (spec.tune) absl::StrAppend(&text, "|tuned|", spec.leverage_follows);
  if (spec.svm.classifier != classify::SvmParameters().classifier) absl::StrAppend(&text, "|", spec.svm.classifier);
  absl::StrAppend(&text, crowd);
  if (normalize != "zscore,unit") absl::StrAppend(&text, "|", normalize);
  return ChecksumOf(text);
}

class TaskRunner {
 public:
  TaskRunner(const TaskRuns& runs, RunJournal& journal, JobProgress& job)
      : runs_(runs), journal_(journal), job_(job), curves_(CurvesOfRun(runs.spec) * runs.spec.runs) {
    for (const JournalEntry& entry : journal.entries()) {
      if (entry.curve.task == runs.task.name) known_[{entry.curve.strategy, entry.curve.run}].push_back(&entry);
    }
  }

  absl::StatusOr<TaskRunsResult> Run() {
    FULCRUM_ASSIGN_OR_RETURN(const Split first, runs_.splits.Make(0));
    FULCRUM_RETURN_IF_ERROR(PlanMemory(first));
    ParallelForBlocks(lanes_, 1, [&](std::size_t, std::size_t) { WorkOffRuns(); });
    FULCRUM_RETURN_IF_ERROR(first_error_);
    TaskRunsResult result{.resumed = resumed_, .train_rows = first.train.size(), .test_rows = first.test.size()};
    for (std::optional<Curve>& curve : curves_) result.curves.push_back(*std::move(curve));
    return result;
  }

 private:
  /// Decides how many runs there are at a time and what each may keep. ResourceExhausted if a single run, without the
  /// table of inner products and with an engine that computes kernels again and again, does not fit.
  absl::Status PlanMemory(const Split& split) {
    const std::size_t estimate = std::max<std::size_t>(1, RunData::EstimateBytes(runs_.data, split, NeedsRawData()));
    const std::size_t total = runs_.memory_bytes > 0 ? runs_.memory_bytes : HalfOfTheMachine();
    lanes_ = std::clamp<std::size_t>(total / estimate, 1, runs_.threads);
    if (runs_.memory_bytes == 0 || estimate <= total) return absl::OkStatus();
    const std::size_t train = split.train.size();
    const std::size_t rows = (2 * train + split.test.size()) * runs_.data.features.cols() * sizeof(double);
    const std::size_t full_data = runs_.spec.full_data ? train * train * sizeof(double) : 0;
    const std::size_t needed = rows + std::max(kLeastForRounds, full_data);
    if (needed > total) {
      return absl::ResourceExhaustedError(
          absl::StrCat("task ", runs_.task.name, ": a run with ", train, " training rows needs ", needed >> 20,
                       " MiB, and ", total >> 20, " MiB are left",
                       full_data > kLeastForRounds ? "; `full_data: off` in the specification needs less" : ""));
    }
    table_bytes_ = 0;
    round_bytes_ = total - rows;
    return absl::OkStatus();
  }

  std::size_t StrategyCount() const { return runs_.spec.strategies.size(); }

  void WorkOffRuns() {
    while (!failed_.load()) {
      const std::size_t run = next_run_++;
      if (run >= runs_.spec.runs) return;
      if (const absl::Status status = RunAll(run); !status.ok()) {
        const std::lock_guard lock(mutex_);
        if (!failed_.exchange(true)) {
          first_error_ = absl::Status(status.code(),
                                      absl::StrCat("task ", runs_.task.name, ", run ", run, ": ", status.message()));
        }
      }
    }
  }

  /// The settings of strategy number `index`; those of the full-data line after the last.
  RoundSpec SpecOf(std::size_t index, std::size_t run) const {
    const StrategySettings full_data{.name = kFullData, .strategy = kFullData};
    RoundSpec spec =
        MakeRoundSpec(runs_.spec, runs_.task, index < StrategyCount() ? runs_.spec.strategies[index] : full_data, run);
    spec.memory_bytes = round_bytes_;
    return spec;
  }
  const ClassifierSettings& ClassifierOf(std::size_t index) const {
    return index < StrategyCount() ? pipeline::ClassifierOf(runs_.spec, runs_.spec.strategies[index])
                                   : runs_.spec.classifier;
  }
  /// Whether the data is normalised in more than one way.
  bool NeedsRawData() const {
    const auto differs = [&](const StrategySettings& strategy) {
      const ClassifierSettings& settings = pipeline::ClassifierOf(runs_.spec, strategy);
      return settings.tune || settings.normalize != runs_.spec.classifier.normalize;
    };
    return runs_.spec.classifier.tune || std::ranges::any_of(runs_.spec.strategies, differs);
  }
  VotingRule VotingOf(std::size_t index) const {
    return index < StrategyCount() ? runs_.spec.strategies[index].voting : VotingRule();
  }
  /// The annotators and how their votes become labels; empty if answers are always right.
  std::string CrowdText(std::size_t index) const {
    if (const double share = runs_.spec.strategies[index].stream_share; share > 0) {
      return absl::StrFormat("|stream,%.17g", share);
    }
    if (runs_.spec.annotators.empty()) return "";
    std::string text = absl::StrCat("|", VotingOf(index).Describe());
    for (const SimulatedAnnotator& annotator : runs_.spec.annotators) {
      absl::StrAppend(&text, "|", annotator.spammer, ",", annotator.skip);
      if (annotator.seconds > 0) absl::StrAppendFormat(&text, ",%.17g s", annotator.seconds);
      if (annotator.cost > 0) absl::StrAppendFormat(&text, ",cost %.17g", annotator.cost);
      for (const double accuracy : annotator.accuracy) absl::StrAppendFormat(&text, ",%.17g", accuracy);
    }
    return text;
  }
  SimulatedCosts CostsOf(std::size_t index) const {
    SimulatedCosts costs = runs_.spec.costs;
    if (index < StrategyCount()) costs.weigh = runs_.spec.strategies[index].weighs_costs;
    return costs;
  }
  std::string CostText(std::size_t index) const {
    const SimulatedCosts costs = CostsOf(index);
    if (!costs.limits()) return "";
    return absl::StrFormat("|costs %.17g,%.17g,%.17g,%d", costs.low, costs.high, costs.budget, costs.weigh);
  }
  std::string NameOf(std::size_t index) const {
    return index < StrategyCount() ? runs_.spec.strategies[index].name : std::string(kFullData);
  }

  absl::Status RunAll(std::size_t run) {
    FULCRUM_ASSIGN_OR_RETURN(const Split split, runs_.splits.Make(run));
    std::optional<RunData> data;  // made when the first curve is missing
    for (std::size_t index = 0; index < CurvesOfRun(runs_.spec) && !failed_.load(); ++index) {
      const RoundSpec spec = SpecOf(index, run);
      const std::uint64_t fingerprint =
          FingerprintOf(spec, runs_.spec.rounds, runs_.data, split, ClassifierOf(index).normalize,
                        index < StrategyCount() ? CrowdText(index) + CostText(index) : "");
      if (TakeKnown(index, run, fingerprint)) continue;
      if (!data) {
        const std::string normalize = NeedsRawData() ? "" : runs_.spec.classifier.normalize;
        FULCRUM_ASSIGN_OR_RETURN(data, RunData::Make(runs_.data, split, normalize, table_bytes_));
      }
      absl::StatusOr<Curve> curve = RunCurve(index, spec, *data);
      if (!curve.ok()) {
        return absl::Status(curve.status().code(), absl::StrCat(NameOf(index), ": ", curve.status().message()));
      }
      curve->task = runs_.task.name;
      curve->strategy = NameOf(index);
      curve->run = run;
      FULCRUM_RETURN_IF_ERROR(journal_.Append({fingerprint, *curve}));
      Place(index, run, *std::move(curve));
      job_.Finish(absl::StrCat(runs_.task.name, ", run ", run + 1, ", ", NameOf(index)));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Curve> RunCurve(std::size_t index, const RoundSpec& spec, const RunData& data) const {
    const std::string& normalize = ClassifierOf(index).normalize;
    if (index >= StrategyCount()) return RunFullData(spec, data, normalize);
    if (const double share = runs_.spec.strategies[index].stream_share; share > 0) {
      return RunStream(spec, runs_.spec.rounds, data, share, runs_.spec.annotators, VotingOf(index));
    }
    return RunStrategy(spec, runs_.spec.rounds, data, runs_.spec.annotators, VotingOf(index), CostsOf(index),
                       normalize);
  }

  bool TakeKnown(std::size_t index, std::size_t run, std::uint64_t fingerprint) {
    const auto found = known_.find({NameOf(index), run});
    if (found == known_.end()) return false;
    for (const JournalEntry* entry : found->second) {
      if (entry->fingerprint != fingerprint) continue;
      Place(index, run, entry->curve);
      ++resumed_;
      job_.Skip();
      return true;
    }
    return false;
  }

  // Every (strategy, run) has a slot of its own, so that the order of the table does not depend on the threads.
  void Place(std::size_t index, std::size_t run, Curve curve) {
    curves_[index * runs_.spec.runs + run] = std::move(curve);
  }

  const TaskRuns& runs_;
  RunJournal& journal_;
  JobProgress& job_;
  std::map<std::pair<std::string, std::size_t>, std::vector<const JournalEntry*>> known_;
  std::vector<std::optional<Curve>> curves_;
  std::size_t lanes_ = 1;                               // runs at a time
  std::size_t table_bytes_ = RunData::kMostTableBytes;  // of inner products, per run
  std::size_t round_bytes_ = 0;                         // for the engines; 0: what the machine has
  std::atomic<std::size_t> next_run_ = 0;
  std::atomic<std::size_t> resumed_ = 0;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;  // guards first_error_
  absl::Status first_error_;
};

}  // namespace

RoundSpec MakeRoundSpec(const ExperimentSpec& spec, const TaskSettings& task, const StrategySettings& strategy,
                        std::size_t run) {
  RoundSpec round;
  // A stream selects by itself, from what its rounds train.
  round.strategy = strategy.stream_share > 0 ? "random" : strategy.strategy;
  round.batch = spec.batch;
  round.leverage_kernel = task.leverage_kernel;
  round.tau = strategy.tau.value_or(task.tau);
  round.alpha = strategy.alpha.value_or(task.alpha);
  round.leverage_scale = strategy.scale.value_or(task.scale);
  round.engine = strategy.engine;
  round.landmarks = strategy.landmarks;
  round.refine_landmarks = strategy.refine_landmarks;
  const ClassifierSettings& classifier = ClassifierOf(spec, strategy);
  round.svm.classifier = classifier.classifier;
  round.svm.kernel = classifier.kernel;
  round.svm.c = classifier.c;
  round.tune = classifier.tune;
  round.leverage_follows = !task.leverage_given;
  round.seed = Random::Fork(spec.seed, run).Next();
  round.svm.seed = round.seed;
  return round;
}

absl::StatusOr<TaskRunsResult> RunTask(const TaskRuns& runs, RunJournal& journal, JobProgress& job) {
  return TaskRunner(runs, journal, job).Run();
}

}  // namespace fulcrum::pipeline
