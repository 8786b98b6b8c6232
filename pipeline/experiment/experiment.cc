#include "pipeline/experiment/experiment.h"

#include <chrono>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pipeline/experiment/run_journal.h"
#include "pipeline/experiment/run_splits.h"
#include "pipeline/experiment/task_data.h"
#include "pipeline/experiment/task_runs.h"
#include "pipeline/nearest_name.h"
#include "stages/core/status_macros.h"
#include "stages/select/strategy_registry.h"

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

/// The task with its data, or the reason why it must be left out.
struct LoadedTask {
  const TaskSettings* settings = nullptr;
  std::unique_ptr<TaskData> data = {};
  std::unique_ptr<RunSplits> splits = {};
};

absl::StatusOr<LoadedTask> LoadTask(const ExperimentSpec& spec, const TaskSettings& task, const std::string& folder) {
  LoadedTask loaded{.settings = &task};
  FULCRUM_ASSIGN_OR_RETURN(TaskData data, LoadTaskData(task, folder));
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
    absl::StatusOr<LoadedTask> loaded = LoadTask(spec, task, options.data_folder);
    if (absl::IsNotFound(loaded.status())) {
      result.skipped.push_back({task.name, std::string(loaded.status().message())});
      job.total -= curves_per_task;
      continue;
    }
    FULCRUM_RETURN_IF_ERROR(loaded.status());
    FULCRUM_ASSIGN_OR_RETURN(TaskRunsResult runs,
                             RunTask({spec, task, *loaded->data, *loaded->splits, options.threads}, *journal, job));
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

}  // namespace fulcrum::pipeline
